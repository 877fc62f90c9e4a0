// SPDX-License-Identifier: Apache-2.0
// Transfers between a CPU and a Vulkan device, against memcpy in the same run.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "bench/figures.h"
#include "bench/reducing_ranks.h"
#include "bench/worker.h"

namespace keel::bench {

namespace {

constexpr uint64_t kBytes = 64 << 20;
constexpr uint64_t kCount = kBytes / sizeof(float);

const char* const kOneThread = "memcpy, 1 thread";
const char* const kTwoThreads = "memcpy, 2 threads";

std::string missing(const Setup& setup) {
  return !setup.cpu ? setup.no_cpu : !setup.vulkan ? setup.no_vulkan : "";
}

// Copies 64 MiB of host memory.
class Memcpy {
 public:
  Contender one_thread() {
    return {kOneThread, kBytes, [this] { std::memcpy(to_.data(), from_.data(), kBytes); }};
  }
  Contender two_threads() {
    return {kTwoThreads, kBytes, [this] {
              worker_.start(second_half_);
              std::memcpy(to_.data(), from_.data(), kBytes / 2);
              worker_.wait();
            }};
  }

 private:
  std::vector<char> from_ = std::vector<char>(kBytes, 1);
  std::vector<char> to_ = std::vector<char>(kBytes, 2);  // touches the pages before timing
  const std::function<void()> second_half_ = [this] {
    std::memcpy(to_.data() + kBytes / 2, from_.data() + kBytes / 2, kBytes / 2);
  };
  Worker worker_;
};

const char* better_memcpy(const std::vector<Timings>& timings) {
  const auto seconds = [&](const char* name) {
    for (const Timings& each : timings) {
      if (each.name == name) return median(each.seconds);
    }
    throw std::logic_error(name);
  };
  return seconds(kTwoThreads) < seconds(kOneThread) ? kTwoThreads : kOneThread;
}

}  // namespace

std::vector<Figure> bridge_all_reduce(Setup& setup) {
  Figure staged;
  staged.name = "bridge_all_reduce/staged";
  if (const std::string why = missing(setup); !why.empty()) return {Figure::skip(staged.name, why)};
  const Device devices[] = {*setup.cpu, *setup.vulkan};
  keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  ReducingRanks in_place(devices, kCount, &options);
  options.forbid_alias = 1;
  ReducingRanks through_staging(devices, kCount, &options);
  Memcpy memory;
  // Each rank's bytes are copied to the host and the sum is copied back: 4 copies.
  const Contender contenders[] = {
      {"Keel, staged", 4.0 * kBytes, [&] { through_staging.run(); }},
      {"Keel, host alias", 4.0 * kBytes, [&] { in_place.run(); }},
      memory.one_thread(),
      memory.two_threads(),
  };
  staged.unit = Unit::kGigabytes;
  staged.timings = race(contenders, setup.race);
  through_staging.check_sums();
  in_place.check_sums();
  staged.about =
      "sum of 64 MiB float32 between a CPU and a Vulkan rank through pinned buffers, counted as "
      "the 4 x 64 MiB that have to be moved, against the better memcpy of 64 MiB.";
  staged.subject = "Keel, staged";
  staged.peer = better_memcpy(staged.timings);
  staged.limit = staged.peer;
  staged.target = Target{0.6};

  Figure alias = staged;
  alias.name = "bridge_all_reduce/alias";
  alias.about =
      "the same where the host reaches both ranks' memory: it is reduced in place and nothing is "
      "staged, counted as the same 4 x 64 MiB.";
  alias.subject = "Keel, host alias";
  alias.target.reset();
  return {staged, alias};
}

std::vector<Figure> copy_cross(Setup& setup) {
  Figure figure;
  figure.name = "copy_cross";
  if (const std::string why = missing(setup); !why.empty()) return {Figure::skip(figure.name, why)};
  Stream cpu(*setup.cpu);
  Stream vulkan(*setup.vulkan);
  const Buffer source(*setup.cpu, KEEL_MEMORY_DEVICE, kBytes);
  const Buffer destination(*setup.vulkan, KEEL_MEMORY_DEVICE, kBytes);
  cpu.fill(source, 1.0f);
  vulkan.fill(destination, 0.0f);
  cpu.synchronize();
  vulkan.synchronize();
  Memcpy memory;
  const Contender contenders[] = {
      {"Keel", kBytes,
       [&] {
         vulkan.copy(destination, source);
         vulkan.synchronize();
       }},
      memory.one_thread(),
      memory.two_threads(),
  };
  keel_copy_path path = KEEL_STRUCT_INIT(keel_copy_path, KEEL_STRUCT_COPY_PATH);
  check(keel_copy_path_get(setup.vulkan->get(), setup.cpu->get(), &path));
  figure.about = fmt::format(
      "copy of 64 MiB from a CPU device to a Vulkan device ({}), against the better memcpy of as "
      "much.",
      path.text);
  figure.unit = Unit::kGigabytes;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = better_memcpy(figure.timings);
  figure.limit = figure.peer;
  return {figure};
}

}  // namespace keel::bench
