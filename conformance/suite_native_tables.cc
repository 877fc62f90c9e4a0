// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: streams that wrap a native stream, and the native stream
// inside a stream. A framework shares its streams with Keel through these two slots.
#include <fmt/format.h>

#include <keel/plugin_kit.hpp>
#include <vector>

#include "conformance/harness.h"
#include "conformance/table_bench.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 4 << 20;
constexpr uint8_t kStale = 0xba;

void check_native_slots(const TableBench& bench) {
  const keel_stream_table* const table = &bench.table();
  std::vector<const char*> absent;
  if (!observe(KEEL_HAS(keel_stream_table, table, wrap))) absent.push_back("wrap");
  if (!observe(KEEL_HAS(keel_stream_table, table, unwrap))) absent.push_back("unwrap");
  if (!observe(KEEL_HAS(keel_stream_table, table, fill))) absent.push_back("fill");
  if (!absent.empty()) unsupported(fmt::format("absent slots: {}", fmt::join(absent, ", ")));
}

std::vector<std::byte> filled(uint8_t pattern) {
  return std::vector<std::byte>(kBytes, std::byte{pattern});
}

void fill(const TableBench& bench, keel_plugin_stream* stream, std::byte* memory, uint8_t pattern) {
  need(bench.table().fill(stream, memory, &pattern, sizeof(pattern), kBytes),
       "stream.fill on a stream that wraps");
}

void* native_of(const TableBench& bench, keel_plugin_stream* stream, const std::string& what) {
  void* native = nullptr;
  need(bench.table().unwrap(stream, &native), "stream.unwrap of " + what);
  return native;
}

// A stream that wraps another's native stream. The bench's streams outlive it.
class Wrapped {
 public:
  Wrapped(const TableBench& bench, void* native) : table_(bench.table()) {
    need(table_.wrap(bench.device(), native, &stream_), "stream.wrap");
  }
  ~Wrapped() {
    if (stream_ != nullptr) table_.destroy(stream_);
  }
  Wrapped(const Wrapped&) = delete;
  Wrapped& operator=(const Wrapped&) = delete;
  keel_plugin_stream* get() const { return stream_; }

 private:
  const keel_stream_table& table_;
  keel_plugin_stream* stream_ = nullptr;
};

// The native stream of a stream stays the same, and is the one that a wrapping stream was given.
void unwrap_gives_the_native_stream(const Context& context) {
  TableBench bench(context, 1);
  check_native_slots(bench);
  void* const native = native_of(bench, bench.stream(0), "a stream");
  check(observe(native_of(bench, bench.stream(0), "a stream, again") == native),
        "stream.unwrap gives another native stream the second time");
  const Wrapped wrapped(bench, native);
  check(observe(native_of(bench, wrapped.get(), "a stream that wraps") == native),
        "stream.unwrap gives another native stream than stream.wrap was given");
}

// Work on a stream and on a stream that wraps its native stream is in one order, without events.
void wrapped_streams_are_one(const Context& context) {
  TableBench bench(context, 1);
  check_native_slots(bench);
  std::byte* const device = bench.memory(kBytes);
  std::byte* const result = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  const Wrapped wrapped(bench, native_of(bench, bench.stream(0), "a stream"));
  for (uint8_t round = 0; round < 8; ++round) {
    write_host(result, filled(kStale));
    fill(bench, wrapped.get(), device, round);
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, kBytes);
    fill(bench, wrapped.get(), device, kStale);
    bench.settle();
    compare(read_host(result, kBytes), filled(round),
            "a download between two fills on a stream that wraps the same native stream");
  }
}

// The native stream belongs to its creator, and goes on when a stream that wraps it is destroyed.
void destroyed_wrapper_leaves_the_native_stream(const Context& context) {
  TableBench bench(context, 1);
  check_native_slots(bench);
  std::byte* const device = bench.memory(kBytes);
  std::byte* const result = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  void* const native = native_of(bench, bench.stream(0), "a stream");
  for (uint8_t round = 0; round < 2; ++round) {
    write_host(result, filled(kStale));
    {
      const Wrapped wrapped(bench, native);
      fill(bench, wrapped.get(), device, round);
      bench.settle();
    }
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, kBytes);
    bench.settle();
    compare(read_host(result, kBytes), filled(round),
            fmt::format("a download on a native stream whose wrapper {} was destroyed", round));
  }
}

}  // namespace

void add_native_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body) {
    cases->push_back({std::string("async/tables/native/") + id,
                      KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED,
                      /*full=*/false, std::move(body)});
  };
  add("unwrap", unwrap_gives_the_native_stream);
  add("wrapped_is_the_same", wrapped_streams_are_one);
  add("destroyed_wrapper", destroyed_wrapper_leaves_the_native_stream);
}

}  // namespace keel::conformance
