// SPDX-License-Identifier: Apache-2.0
// Levels core, async and memory, on the plugin's own tables: registration, aliases, exports, gates
// and queries of the device by several threads at once, and the resources that calls give back.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>

#include "conformance/process_counts.h"
#include "conformance/table_bench.h"
#include "conformance/table_calls.h"
#include "conformance/table_memory.h"

namespace keel::conformance {

namespace {

constexpr uint32_t kThreads = 4;
constexpr uint64_t kPage = 4096;

// ---- threads --------------------------------------------------------------------------------

// Findings of one thread of a case, observed after the threads have ended.
struct Found {
  Tally statuses;
  uint32_t wrong = 0;
};

// Runs |body|(thread, round, found) |rounds| times on each of several threads, until one fails.
void on_threads(uint32_t rounds, const std::string& what,
                const std::function<void(uint32_t, uint32_t, Found*)>& body,
                Where where = Where::current()) {
  std::array<Found, kThreads> found;
  run_threads(kThreads, [&](uint32_t thread) {
    for (uint32_t round = 0; round < rounds && found[thread].statuses.first() == KEEL_OK; ++round) {
      body(thread, round, &found[thread]);
    }
  });
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    need(found[thread].statuses.first(), fmt::format("{} on thread {}", what, thread), where);
    const uint32_t wrong = observe(found[thread].wrong, where);
    check(wrong == 0, fmt::format("{} on thread {}: wrong {} times", what, thread, wrong), where);
  }
}

std::vector<std::unique_ptr<TableStream>> streams_of_threads(const Context& context) {
  std::vector<std::unique_ptr<TableStream>> streams;
  for (uint32_t i = 0; i < kThreads; ++i) streams.push_back(std::make_unique<TableStream>(context));
  return streams;
}

keel_status copy_now(const Context& context, const TableStream& stream, keel_copy_kind kind,
                     void* destination, const void* source, uint64_t size) {
  const keel_status status =
      streams_of(context).copy(stream.get(), kind, destination, source, size);
  return status == KEEL_OK ? stream.settle_unobserved() : status;
}

// Each thread registers ranges of its own, copies from and to them, and unregisters them.
void threads_register(const Context& context) {
  constexpr uint64_t kBytes = 5 * kPage + 100;
  const auto streams = streams_of_threads(context);
  std::vector<std::byte> host(kThreads * 8 * kPage + kPage);
  std::vector<std::unique_ptr<TableBuffer>> memory;
  for (uint32_t i = 0; i < kThreads; ++i) {
    memory.push_back(std::make_unique<TableBuffer>(context, kBytes));
  }
  const keel_memory_table& table = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  on_threads(60, "memory.host_register", [&](uint32_t thread, uint32_t round, Found* found) {
    std::byte* const own = host.data() + thread * 8 * kPage + round % 7 * 36;
    const uint64_t size = kBytes - round % 5 * 1000;
    void* address = nullptr;
    const auto word = static_cast<uint32_t>(thread << 16 | round);
    const std::vector<std::byte> sent = words(word, size / 4 * 4);
    std::memcpy(own, sent.data(), sent.size());
    found->statuses.add(table.host_register(device, own, size, &address));
    found->statuses.add(copy_now(context, *streams[thread], KEEL_COPY_HOST_TO_DEVICE,
                                 memory[thread]->at(0), own, sent.size()));
    std::memset(own, 0, sent.size());
    found->statuses.add(copy_now(context, *streams[thread], KEEL_COPY_DEVICE_TO_HOST, own,
                                 memory[thread]->at(0), sent.size()));
    found->wrong += std::memcmp(own, sent.data(), sent.size()) != 0 ? 1 : 0;
    found->statuses.add(table.host_unregister(device, own));
  });
}

// Each thread asks for aliases of blocks that it takes and gives back.
void threads_alias(const Context& context) {
  const auto streams = streams_of_threads(context);
  const keel_memory_table& table = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  on_threads(60, "memory.host_alias", [&](uint32_t thread, uint32_t round, Found* found) {
    const uint64_t size = 4 * (1 + (thread * 977 + round * 331) % 20'000);
    void* pointer = nullptr;
    found->statuses.add(table.alloc(device, KEEL_MEMORY_DEVICE, size, /*usage=*/0, &pointer));
    if (found->statuses.first() != KEEL_OK) return;
    const uint64_t inner = size > 128 ? 64 : 0;
    void* alias = nullptr;
    found->statuses.add(
        table.host_alias(device, static_cast<std::byte*>(pointer) + inner, size - inner, &alias));
    if (found->statuses.first() == KEEL_OK) {
      const std::vector<std::byte> sent = words(thread << 16 | round, size - inner);
      std::memcpy(alias, sent.data(), sent.size());
      std::vector<std::byte> got(sent.size());
      found->statuses.add(copy_now(context, *streams[thread], KEEL_COPY_DEVICE_TO_HOST, got.data(),
                                   static_cast<std::byte*>(pointer) + inner, got.size()));
      found->wrong += got != sent ? 1 : 0;
    }
    found->statuses.add(table.free(device, KEEL_MEMORY_DEVICE, pointer));
  });
}

// Each thread exports blocks of its own in the kinds that the device offers.
void threads_export(const Context& context) {
  const keel_memory_table& table = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  const TableBuffer shared(context, 1 << 20, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  std::vector<keel_export_kind> kinds;
  std::array<uint64_t, 4> sizes = {};  // of the object, by kind
  const auto export_at = [&](keel_export_kind kind, uint64_t offset, keel_memory_export* out) {
    *out = {};
    out->header = {sizeof(*out), KEEL_STRUCT_MEMORY_EXPORT, nullptr};
    out->fd = -1;
    const keel_status status = table.export_memory(device, shared.at(offset), 4096, kind,
                                                   /*importer_pid=*/0, out);
    if (!judging() && status == KEEL_OK && out->fd >= 0) close(out->fd);
    return status;
  };
  for (const keel_export_kind kind : {KEEL_EXPORT_MEMFD, KEEL_EXPORT_DMABUF, KEEL_EXPORT_OPAQUE}) {
    keel_memory_export exported;
    if (observe_status(export_at(kind, 0, &exported)) != KEEL_OK) continue;
    kinds.push_back(kind);
    sizes[kind] = exported.offset;
  }
  check(!kinds.empty(), "EXPORT is claimed, but memory of no kind is exported");
  on_threads(40, "memory.export_memory", [&](uint32_t thread, uint32_t round, Found* found) {
    const keel_export_kind kind = kinds[(thread + round) % kinds.size()];
    const uint64_t offset = (thread * 40 + round) * uint64_t{4096};
    keel_memory_export exported;
    found->statuses.add(export_at(kind, offset, &exported));
    if (found->statuses.first() != KEEL_OK) return;
    const bool is_apart = kind != KEEL_EXPORT_OPAQUE && exported.offset != sizes[kind] + offset &&
                          exported.object_size >= (uint64_t{1} << 20);
    found->wrong += exported.kind != kind || is_apart ? 1 : 0;
  });
}

// Queries of the device beside allocations.
void threads_info(const Context& context) {
  const keel_device_table* const table = device_of(context).plugin().device;
  keel_plugin_instance* const instance = device_of(context).instance();
  keel_plugin_device* const device = device_of(context).get();
  const uint32_t ordinal = observe(device_of(context).ordinal());
  const bool has_memory_info = context.has(KEEL_CAPABILITY_MEMORY_INFO);
  const keel_device_info& wanted = context.environment.info;
  on_threads(50, "queries of the device", [&](uint32_t thread, uint32_t round, Found* found) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    found->statuses.add(table->info(instance, ordinal, &info));
    found->wrong += std::strcmp(info.name, wanted.name) != 0 ||
                            info.capabilities != wanted.capabilities ||
                            info.alignment != wanted.alignment
                        ? 1
                        : 0;
    uint32_t count = 0;
    found->statuses.add(table->count(instance, &count));
    found->wrong += count <= ordinal ? 1 : 0;
    void* pointer = nullptr;
    found->statuses.add(memory_of(context).alloc(device, KEEL_MEMORY_DEVICE,
                                                 1 + (thread * 50 + round) * uint64_t{100},
                                                 /*usage=*/0, &pointer));
    if (found->statuses.first() != KEEL_OK) return;
    uint64_t free = 0;
    uint64_t total = 0;
    if (has_memory_info) {
      found->statuses.add(table->memory_info(device, &free, &total));
      found->wrong += total == 0 || free > total ? 1 : 0;
    }
    found->statuses.add(memory_of(context).free(device, KEEL_MEMORY_DEVICE, pointer));
  });
}

// Each thread holds a stream of its own behind gates of its own.
void threads_gates(const Context& context) {
  const auto streams = streams_of_threads(context);
  const keel_stream_table& table = streams_of(context);
  keel_plugin_device* const device = device_of(context).get();
  std::vector<std::unique_ptr<TableEvent>> events;
  for (uint32_t i = 0; i < kThreads; ++i) events.push_back(std::make_unique<TableEvent>(context));
  on_threads(20, "native gates", [&](uint32_t thread, uint32_t, Found* found) {
    keel_plugin_gate* gate = nullptr;
    keel_plugin_event* const event = events[thread]->get();
    found->statuses.add(table.gate_create(device, &gate));
    if (found->statuses.first() != KEEL_OK) return;
    found->statuses.add(table.stream_wait_gate(streams[thread]->get(), gate));
    found->statuses.add(table.event_record(event, streams[thread]->get()));
    found->wrong += table.event_query(event) != KEEL_NOT_READY ? 1 : 0;
    found->statuses.add(table.gate_open(gate));
    found->statuses.add(streams[thread]->settle_unobserved());
    table.gate_destroy(gate);
  });
}

// ---- what calls give back -------------------------------------------------------------------

// Allocations that fail, of each kind of memory, beside one that succeeds.
void failures_take_nothing(const Context& context) {
  const keel_memory_table& table = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  for (const MemoryKind& kind : kMemoryKinds) {
    if (!context.has(kind.capability)) continue;
    const std::string what = fmt::format("allocations of {} memory that fail", kind.name);
    const uint64_t before = observe_address_space();
    expect_given_back(
        32,
        [&] {
          for (const uint64_t size : {uint64_t{1} << 62, uint64_t{1} << 47}) {
            void* pointer = nullptr;
            const keel_status status = table.alloc(device, kind.kind, size, /*usage=*/0, &pointer);
            if (status == KEEL_OK) (void)table.free(device, kind.kind, pointer);
          }
        },
        what);
    const uint64_t after = observe_address_space();
    check(after < before + (uint64_t{1} << 40),
          fmt::format("{}: {} bytes of address space are gone", what, after - before));
    // Small blocks, so that no large one is taken for the sum of others.
    TableBlock block(context, kind.kind, 1000);
    check_aligned(context, block);
    block.free();
  }
}

void registrations_end(const Context& context) {
  constexpr uint64_t kBytes = 16 * kPage;
  std::vector<std::byte> host(kBytes + kPage);
  const keel_memory_table& table = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  uint64_t round = 0;
  expect_given_back(
      32,
      [&] {
        void* address = nullptr;
        std::byte* const at = host.data() + round++ % 64 * 60;
        need(table.host_register(device, at, kBytes, &address), "memory.host_register");
        need(table.host_unregister(device, at), "memory.host_unregister");
      },
      "registered memory that is not any more");
}

void aliases_end(const Context& context) {
  const keel_memory_table& table = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  expect_given_back(
      32,
      [&] {
        const TableBuffer memory(context, 300'000);
        for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}, uint64_t{299'999}}) {
          void* alias = nullptr;
          need(table.host_alias(device, memory.at(offset), 300'000 - offset, &alias),
               "memory.host_alias");
        }
      },
      "aliases of memory that is freed");
}

void gates_end(const Context& context) {
  const keel_stream_table& table = streams_of(context);
  const TableStream stream(context);
  expect_given_back(
      32,
      [&] {
        keel_plugin_gate* gate = nullptr;
        need(table.gate_create(device_of(context).get(), &gate), "stream.gate_create");
        need(table.stream_wait_gate(stream.get(), gate), "stream.stream_wait_gate");
        need(table.gate_open(gate), "stream.gate_open");
        need(stream.settle(), "work behind a gate");
        table.gate_destroy(gate);
      },
      "gates that are destroyed");
}

// Streams and events of all kinds.
void streams_end(const Context& context) {
  const keel_stream_table& table = streams_of(context);
  keel_plugin_device* const device = device_of(context).get();
  const uint32_t timing = context.has(KEEL_CAPABILITY_TIMING) ? KEEL_EVENT_TIMING : 0;
  const TableBuffer memory(context, 4096);
  expect_given_back(
      32,
      [&] {
        const TableStream stream(context);
        const TableEvent event(context, timing);
        const uint32_t word = 7;
        if (context.has(KEEL_CAPABILITY_FILL)) {
          need(table.fill(stream.get(), memory.at(0), &word, sizeof(word), 4096), "stream.fill");
        }
        event.record(stream);
        need(event.poll(), "event_query");
        keel_plugin_event* unused = nullptr;
        need(table.event_create(device, /*flags=*/0, &unused), "stream.event_create");
        table.event_destroy(unused);  // never recorded
      },
      "streams and events that are destroyed");
}

}  // namespace

void add_memory_thread_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = 0) {
    cases->push_back({id, capabilities, /*full=*/false, std::move(body)});
  };
  add("core/tables/threads/info", threads_info);
  add("async/tables/threads/gates", threads_gates, KEEL_CAPABILITY_NATIVE_GATE);
  add("memory/tables/threads/host_register", threads_register, KEEL_CAPABILITY_HOST_REGISTER);
  add("memory/tables/threads/host_alias", threads_alias, KEEL_CAPABILITY_HOST_ALIAS);
  add("memory/tables/threads/export", threads_export, KEEL_CAPABILITY_EXPORT);
  add("core/tables/given_back/streams", streams_end);
  add("async/tables/given_back/gates", gates_end, KEEL_CAPABILITY_NATIVE_GATE);
  add("memory/tables/given_back/failures", failures_take_nothing);
  add("memory/tables/given_back/host_register", registrations_end, KEEL_CAPABILITY_HOST_REGISTER);
  add("memory/tables/given_back/host_alias", aliases_end, KEEL_CAPABILITY_HOST_ALIAS);
}

}  // namespace keel::conformance
