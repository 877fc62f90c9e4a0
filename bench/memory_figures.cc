// SPDX-License-Identifier: Apache-2.0
// Allocations served from the cache, through keel.h, against the C library's malloc; and the memory
// that the allocator reserves for recorded programs.
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/calls.h"
#include "bench/figures.h"
#include "core/testing/allocation_traces.h"

namespace keel::bench {

namespace {

constexpr uint64_t kBytes = 64 << 10;  // malloc also serves this size from its cache
constexpr uint64_t kLargeBytes = 4 << 20;

// Makes the compiler treat |pointer| as used.
void touch(void* pointer) {
  asm volatile("" : : "g"(pointer) : "memory");
}

using testing::Trace;
using testing::TraceStep;

// Loads a device of the backend `fake` whose addresses have no memory behind them.
Device load_unbacked() {
  const char* const keys[] = {"devices", "unbacked", "no_alias"};
  const char* const values[] = {"1", "1", "1"};
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 3;
  settings.keys = keys;
  settings.values = values;
  uint32_t index = 0;
  check(keel_plugin_load(find_test_plugin("fake").c_str(), &settings, nullptr, &index));
  return Device::find(backends().at(index).name);
}

// Measures a device's reserved memory for |trace|, with all work done before the next call.
Figure held_for(const std::string& name, const Trace& trace, std::optional<Target> target) {
  constexpr char kReserved[] = "reserved";
  constexpr char kAllocated[] = "allocated";
  const Device device = load_unbacked();
  const Stream streams[] = {Stream(device), Stream(device)};
  std::unordered_map<uint64_t, void*> memory;
  for (const TraceStep& step : trace) {
    const keel_stream stream = streams[step.stream].get();
    if (step.kind == TraceStep::Kind::kAlloc) {
      check(keel_alloc_on_stream(stream, step.size, &memory[step.id]));
    } else if (step.kind == TraceStep::Kind::kFree) {
      check(keel_free_on_stream(stream, memory.at(step.id)));
      memory.erase(step.id);
    }
  }
  const keel_memory_stats stats = device.memory_stats();
  for (const auto& [id, pointer] : memory) check(keel_free(device.get(), pointer));
  device.trim_memory();
  Figure figure;
  figure.name = "core_alloc/traces/" + name;
  figure.about =
      "what Keel holds from the device against what the program has, both at their peaks; memory "
      "comes back in the order of the program's streams.";
  figure.unit = Unit::kMebibytes;
  figure.timings = {{kReserved, 1, 1, {static_cast<double>(stats.reserved_peak)}},
                    {kAllocated, 1, 1, {static_cast<double>(stats.allocated_peak)}}};
  figure.subject = kReserved;
  figure.peer = figure.limit = kAllocated;
  figure.target = target;
  return figure;
}

}  // namespace

std::vector<Figure> core_alloc_traces(Setup&) {
  if (find_test_plugin("fake").empty()) {
    return {Figure::skip("core_alloc/traces", kNoTestPlugins)};
  }
  const Target tight{1.10};
  return {held_for("training_step", testing::gpt2_training(3), tight),
          held_for("variable_lengths", testing::variable_lengths(40), tight),
          held_for("two_streams", testing::two_streams(3), tight),
          // Programs with little memory: the last segment of each size class dominates.
          held_for("recorded_training", testing::recorded_training(), std::nullopt),
          held_for("recorded_conformance", testing::recorded_conformance(), std::nullopt)};
}

std::vector<Figure> core_alloc(Setup& setup) {
  Figure ordered;
  ordered.name = "core_alloc/on_stream";
  if (!setup.cpu) return {Figure::skip(ordered.name, setup.no_cpu)};
  const keel_device device = setup.cpu->get();
  Stream stream(*setup.cpu);
  // As in a running program: other memory is live, and the cache holds other sizes.
  std::vector<void*> others(1000);
  for (size_t i = 0; i < others.size(); ++i) {
    check(keel_alloc(device, KEEL_MEMORY_DEVICE, 512 * (1 + i % 300), &others[i]));
  }
  for (size_t i = 0; i < others.size(); i += 2) check(keel_free(device, others[i]));
  // Large blocks too have other sizes: the best fit is split and merged.
  constexpr uint64_t kOdd = 256 << 10;
  std::vector<void*> large(100);
  for (size_t i = 0; i < large.size(); ++i) {
    check(
        keel_alloc(device, KEEL_MEMORY_DEVICE, kLargeBytes / 2 + kOdd + (i % 7 << 20), &large[i]));
  }
  for (size_t i = 0; i < large.size(); i += 2) check(keel_free(device, large[i]));
  void* known = others[1];
  const Contender contenders[] = {
      {"Keel, on a stream", 1,
       [&] {
         void* memory = nullptr;
         check(keel_alloc_on_stream(stream.get(), kBytes, &memory));
         check(keel_free_on_stream(stream.get(), memory));
       }},
      {"Keel, any stream", 1,
       [&] {
         void* memory = nullptr;
         check(keel_alloc(device, KEEL_MEMORY_DEVICE, kBytes, &memory));
         check(keel_free(device, memory));
       }},
      {"Keel, 4 MiB on a stream", 1,
       [&] {
         void* memory = nullptr;
         check(keel_alloc_on_stream(stream.get(), kLargeBytes, &memory));
         check(keel_free_on_stream(stream.get(), memory));
       }},
      {"Keel, look-up", 1,
       [&] {
         keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
         check(keel_memory_find(device, known, &info));
       }},
      {"malloc", 1,
       [&] {
         void* memory = std::malloc(kBytes);
         touch(memory);
         std::free(memory);
       }},
  };
  ordered.about =
      "keel_alloc_on_stream and keel_free_on_stream of 64 KiB from the cache, the stream idle, "
      "500 blocks in use and 500 cached; beside it malloc and free of as much.";
  ordered.unit = Unit::kMicroseconds;
  ordered.measure = Measure::kSubject;
  ordered.target = Target{0.15};
  ordered.timings = race(contenders, setup.race);
  ordered.subject = "Keel, on a stream";
  ordered.peer = "malloc";
  ordered.limit = "malloc";
  Figure plain = ordered;
  plain.name = "core_alloc/any_stream";
  plain.about = "the same with keel_alloc and keel_free, in the same run.";
  plain.subject = "Keel, any stream";
  Figure bulky = ordered;
  bulky.name = "core_alloc/large";
  bulky.about =
      "the same with 4 MiB, in the same run, 50 blocks of 2 to 8 MiB in use and 50 cached.";
  bulky.subject = "Keel, 4 MiB on a stream";
  Figure find = ordered;
  find.name = "core_alloc/find";
  find.about = "keel_memory_find of a pointer that the thread knows, in the same run.";
  find.subject = "Keel, look-up";
  find.target.reset();
  for (size_t i = 1; i < others.size(); i += 2) check(keel_free(device, others[i]));
  for (size_t i = 1; i < large.size(); i += 2) check(keel_free(device, large[i]));
  return {ordered, plain, bulky, find};
}

}  // namespace keel::bench
