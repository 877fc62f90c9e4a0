// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_failures.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "conformance/harness.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 64 << 10;
constexpr uint32_t kWord = 0x5eed0001;

}  // namespace

void check_lost(TableBench& bench, keel_plugin_event* event, keel_plugin_event* idle,
                std::byte* device, const std::byte* pinned) {
  const PluginDevice& plugin = device_of(bench.context());
  const keel_stream_table* const table = &bench.table();
  const bool has_wait = observe(KEEL_HAS(keel_stream_table, table, event_wait));
  const bool has_query = observe(KEEL_HAS(keel_stream_table, table, query));
  const bool has_synchronize = observe(KEEL_HAS(keel_stream_table, table, synchronize));
  const int64_t wait_ns = bench.context().environment.wait_ns;
  const auto lost = [](keel_status status, const char* what, Where where = Where::current()) {
    need_be(KEEL_DEVICE_LOST, status, fmt::format("{} of a lost device", what), where);
  };
  for (uint32_t again = 0; again < 2; ++again) {
    void* pointer = nullptr;
    keel_plugin_stream* stream = nullptr;
    keel_plugin_event* made = nullptr;
    const uint32_t word = kWord;
    lost(table->event_query(event), "event_query, again,");
    if (has_wait) lost(table->event_wait(event, wait_ns), "event_wait");
    if (has_query) lost(table->query(bench.stream(0)), "stream.query");
    if (has_synchronize) lost(table->synchronize(bench.stream(0), wait_ns), "stream.synchronize");
    for (uint32_t i = 0; i < bench.streams(); ++i) {
      if (bench.has(KEEL_CAPABILITY_FILL)) {
        lost(table->fill(bench.stream(i), device, &word, sizeof(word), kBytes), "stream.fill");
      }
      lost(table->copy(bench.stream(i), KEEL_COPY_HOST_TO_DEVICE, device, pinned, kBytes),
           "stream.copy");
      lost(table->event_record(idle, bench.stream(i)), "stream.event_record");
    }
    lost(table->create(bench.device(), /*priority=*/0, &stream), "stream.create");
    lost(table->event_create(bench.device(), /*flags=*/0, &made), "event_create");
    lost(plugin.plugin().memory->alloc(bench.device(), KEEL_MEMORY_DEVICE, kBytes, /*usage=*/0,
                                       &pointer),
         "memory.alloc");
  }
}

void check_usable(const Context& context, const std::string& after) {
  const TableBuffer buffer(context, kBytes);
  const TableStream stream(context);
  const std::vector<std::byte> sent = random_bytes(context, 1, kBytes);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, buffer.at(0), sent.data(), kBytes);
  stream.expect(buffer.at(0), sent, "a device after " + after);
}

}  // namespace keel::conformance
