// SPDX-License-Identifier: Apache-2.0
// Levels core, async and memory, on the plugin's own tables: streams of every priority,
// non-blocking copies, timing, gates, stream-ordered allocation, copies between devices.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>

#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// ---- streams --------------------------------------------------------------------------

// Every priority must be accepted, extreme ones clamped, and each stream must work.
void priorities(const Context& context) {
  constexpr uint64_t kBytes = 5'003;
  constexpr int32_t kPriorities[] = {0, -1, 1, -2, 2, -100, 100, INT32_MIN, INT32_MAX};
  Draws draws(context);
  const TableBuffer memory(context, kBytes);
  for (const int32_t priority : kPriorities) {
    const std::vector<std::byte> sent = draws.bytes(kBytes);
    std::vector<std::byte> got(kBytes);
    const TableEvent event(context);
    keel_plugin_stream* stream = nullptr;
    need(streams_of(context).create(device_of(context).get(), priority, &stream),
         fmt::format("stream.create of priority {}", priority));
    struct Made {
      const Context& context;
      keel_plugin_stream* stream;
      ~Made() {
        if (stream != nullptr) streams_of(context).destroy(stream);
      }
    } const made{context, stream};
    const auto copy = [&](keel_copy_kind kind, void* destination, const void* source) {
      need(streams_of(context).copy(stream, kind, destination, source, kBytes), "stream.copy");
    };
    copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), sent.data());
    copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0));
    need(streams_of(context).event_record(event.get(), stream), "stream.event_record");
    need(event.poll(), fmt::format("work of priority {}", priority));
    check_equal(got, sent, fmt::format("copies of priority {}", priority));
  }
}

// Every function must work as the first call of a new thread: the plugin must set per-thread SDK
// state on entry.
void fresh_thread(const Context& context) {
  constexpr uint64_t kBytes = 8'192;
  struct Call {
    std::string slot;
    keel_status status;
  };
  const keel_plugin& plugin = device_of(context).plugin();
  keel_plugin_device* const device = device_of(context).get();
  const std::vector<std::byte> sent = Draws(context).bytes(kBytes);
  std::vector<std::byte> host = sent;
  std::vector<std::byte> got(kBytes);
  std::vector<Call> calls;  // from the worker's threads, in sequence
  const TableBuffer memory(context, kBytes);
  const TableEvent event(context, context.has(KEEL_CAPABILITY_TIMING) ? KEEL_EVENT_TIMING : 0);
  const TableStream other(context);
  const TableStream stream(context);
  // Each call runs on a new thread.
  const auto call = [&](const char* slot, const std::function<keel_status()>& body) {
    run_threads(1, [&](uint32_t) { calls.push_back({slot, body()}); });
  };
  for (const keel_memory_kind kind :
       {KEEL_MEMORY_DEVICE, KEEL_MEMORY_PINNED, KEEL_MEMORY_MANAGED}) {
    if (kind == KEEL_MEMORY_PINNED && !context.has(KEEL_CAPABILITY_PINNED)) continue;
    if (kind == KEEL_MEMORY_MANAGED && !context.has(KEEL_CAPABILITY_MANAGED)) continue;
    void* pointer = nullptr;
    call("memory.alloc", [&] { return plugin.memory->alloc(device, kind, 1000, 0, &pointer); });
    if (pointer == nullptr) continue;
    call("memory.free", [&] { return plugin.memory->free(device, kind, pointer); });
  }
  if (context.has(KEEL_CAPABILITY_MEMORY_INFO)) {
    uint64_t free = 0;
    uint64_t total = 0;
    call("device.memory_info", [&] { return plugin.device->memory_info(device, &free, &total); });
  }
  if (context.has(KEEL_CAPABILITY_HOST_REGISTER)) {
    void* pointer = nullptr;
    call("memory.host_register",
         [&] { return plugin.memory->host_register(device, host.data(), kBytes, &pointer); });
    call("memory.host_unregister",
         [&] { return plugin.memory->host_unregister(device, host.data()); });
  }
  if (context.has(KEEL_CAPABILITY_HOST_ALIAS)) {
    void* pointer = nullptr;
    call("memory.host_alias",
         [&] { return plugin.memory->host_alias(device, memory.at(0), kBytes, &pointer); });
  }
  keel_plugin_event* made_event = nullptr;
  call("stream.event_create", [&] { return plugin.stream->event_create(device, 0, &made_event); });
  if (made_event != nullptr) {
    run_threads(1, [&](uint32_t) { plugin.stream->event_destroy(made_event); });
  }
  keel_plugin_stream* made_stream = nullptr;
  call("stream.create", [&] { return plugin.stream->create(device, 0, &made_stream); });
  if (made_stream != nullptr) {
    run_threads(1, [&](uint32_t) { plugin.stream->destroy(made_stream); });
  }
  call("stream.copy", [&] {
    return plugin.stream->copy(stream.get(), KEEL_COPY_HOST_TO_DEVICE, memory.at(0), host.data(),
                               kBytes);
  });
  if (context.has(KEEL_CAPABILITY_FILL)) {
    call("stream.fill",
         [&] { return plugin.stream->fill(stream.get(), memory.at(0), sent.data(), 8, 8); });
  }
  call("stream.event_record",
       [&] { return plugin.stream->event_record(event.get(), stream.get()); });
  call("stream.stream_wait_event",
       [&] { return plugin.stream->stream_wait_event(other.get(), event.get()); });
  call("stream.copy", [&] {
    return plugin.stream->copy(stream.get(), KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0),
                               kBytes);
  });
  call("stream.event_record and event_query", [&] { return stream.settle_unobserved(); });
  if (context.has(KEEL_CAPABILITY_TIMING)) {
    uint64_t elapsed = 0;
    call("stream.event_elapsed",
         [&] { return plugin.stream->event_elapsed(event.get(), event.get(), &elapsed); });
  }
  const uint64_t count = observe(uint64_t{calls.size()});
  calls.resize(count);
  for (Call& each : calls) {
    each.slot = observe_text(each.slot);
    need(each.status, each.slot + " as the first call of a thread");
  }
  check_equal(got, sent, "copies by threads that had called nothing before");
}

// Enqueues work that keeps a fast device busy for a while.
void keep_busy(const Context& context, const TableStream& stream, const TableBuffer& first,
               const TableBuffer& second, uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; ++i) {
    need(streams_of(context).copy(stream.get(), KEEL_COPY_DEVICE_TO_DEVICE, first.at(0),
                                  second.at(0), first.size()),
         "stream.copy");
  }
}

// Copies of pageable memory behind unfinished work: the calls must return before the work ends.
void pageable_async(const Context& context, keel_copy_kind kind, uint64_t size) {
  constexpr int kTries = 6;
  const std::vector<std::byte> sent = Draws(context).bytes(size);
  std::vector<std::byte> host = sent;
  std::vector<std::byte> got(size);
  const TableBuffer first(context, 16 * kMiB);
  const TableBuffer second(context, 16 * kMiB);
  const TableBuffer memory(context, size);
  const TableEvent busy(context);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), sent.data(), size);
  const bool up = kind == KEEL_COPY_HOST_TO_DEVICE;
  bool returned_early = false;
  for (int i = 0; i < kTries && !returned_early; ++i) {
    keep_busy(context, stream, first, second, 4U << i);
    busy.record(stream);
    need(streams_of(context).copy(stream.get(), kind, up ? memory.at(0) : host.data(),
                                  up ? host.data() : memory.at(0), size),
         "stream.copy");
    const keel_status status = observe_status(streams_of(context).event_query(busy.get()));
    returned_early = status == KEEL_NOT_READY;
    check(returned_early || status == KEEL_OK, "work in front of a copy of pageable memory");
    need(stream.settle(), "a copy of pageable memory");
  }
  check(returned_early,
        fmt::format("PAGEABLE_ASYNC is claimed, but each of {} copies of {} bytes of pageable "
                    "memory returned when the work in front of it was done",
                    kTries, size));
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), size);
  check_equal(got, sent, "memory that was copied behind other work");
  check_equal(host, sent, "pageable memory that was copied behind other work");
}

// The time between two events, in nanoseconds, must match the host's clock: at least the time
// during which the second event was known to be pending, at most the whole interval. Clocks differ
// and hosts observe late, so a factor of 2 and a millisecond are allowed.
void timing(const Context& context) {
  constexpr uint64_t kSlack = 1'000'000;
  const TableBuffer first(context, 16 * kMiB);
  const TableBuffer second(context, 16 * kMiB);
  const TableEvent start(context, KEEL_EVENT_TIMING);
  const TableEvent end(context, KEEL_EVENT_TIMING);
  const TableStream stream(context);
  for (int round = 0; round < 3; ++round) {
    const int64_t before = observe_now();
    start.record(stream);
    need(start.poll(), "a timing event");
    const int64_t started = observe_now();
    for (int i = 0; i < 3; ++i) {
      keep_busy(context, stream, first, second, 1);
      need(stream.settle(), "work between timing events");
    }
    const int64_t ending = observe_now();
    end.record(stream);
    need(end.poll(), "a timing event");
    const int64_t ended = observe_now();
    uint64_t elapsed = 0;
    need(streams_of(context).event_elapsed(start.get(), end.get(), &elapsed),
         "stream.event_elapsed");
    elapsed = observe(elapsed);
    const auto least = static_cast<uint64_t>(ending - started);
    const auto most = static_cast<uint64_t>(ended - before);
    check(elapsed <= 2 * most + kSlack,
          fmt::format("stream.event_elapsed: {} ns, and {} passed for the host", elapsed, most));
    check(2 * elapsed + kSlack >= least,
          fmt::format("stream.event_elapsed: {} ns, and at least {} passed for the host", elapsed,
                      least));
    uint64_t none = UINT64_MAX;
    need(streams_of(context).event_elapsed(start.get(), start.get(), &none),
         "stream.event_elapsed from an event to itself");
    none = observe(none);
    check(none <= kSlack, fmt::format("stream.event_elapsed of one event: {} ns", none));
  }
}

// ---- gates ----------------------------------------------------------------------------

class NativeGate {
 public:
  explicit NativeGate(const Context& context, Where where = Where::current()) : context_(context) {
    need(streams_of(context).gate_create(device_of(context).get(), &gate_), "stream.gate_create",
         where);
  }
  // Opens the gate if a failed case left it closed. Destroys the gate only after done().
  ~NativeGate() {
    if (gate_ != nullptr && !is_open_) (void)streams_of(context_).gate_open(gate_);
    if (gate_ != nullptr && is_done_) streams_of(context_).gate_destroy(gate_);
  }
  NativeGate(const NativeGate&) = delete;
  NativeGate& operator=(const NativeGate&) = delete;

  void hold(const TableStream& stream, Where where = Where::current()) const {
    need(streams_of(context_).stream_wait_gate(stream.get(), gate_), "stream.stream_wait_gate",
         where);
  }
  void open(Where where = Where::current()) {
    is_open_ = true;
    need(streams_of(context_).gate_open(gate_), "stream.gate_open", where);
  }
  // Call it when all work behind the gate has completed.
  void done() { is_done_ = true; }

 private:
  const Context& context_;
  keel_plugin_gate* gate_ = nullptr;
  bool is_open_ = false;
  bool is_done_ = false;
};

// Returns whether |event| stays pending for 3,000 queries.
bool stays_behind(const Context& context, const TableEvent& event, Where where = Where::current()) {
  keel_status status = KEEL_NOT_READY;
  for (int i = 0; i < 3000 && status == KEEL_NOT_READY; ++i) {
    status = streams_of(context).event_query(event.get());
  }
  return observe_status(status, where) == KEEL_NOT_READY;
}

// |stream_count| streams, each waiting on |gate_count| gates; all work is enqueued before the first
// gate opens.
void gates(const Context& context, size_t stream_count, size_t gate_count) {
  constexpr uint64_t kBytes = 30'011;
  Draws draws(context);
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::unique_ptr<TableBuffer>> memory;  // written before the gates
  std::vector<std::unique_ptr<TableBuffer>> pinned;  // written behind the gates
  std::vector<std::unique_ptr<TableEvent>> events;
  const std::vector<std::byte> red(kBytes, kRedZone);
  std::vector<std::unique_ptr<TableStream>> streams;
  std::vector<std::unique_ptr<NativeGate>> gates;  // all open before a stream is awaited
  for (size_t i = 0; i < stream_count; ++i) {
    sent.push_back(draws.bytes(kBytes));
    memory.push_back(std::make_unique<TableBuffer>(context, kBytes));
    pinned.push_back(std::make_unique<TableBuffer>(context, kBytes, KEEL_MEMORY_PINNED));
    events.push_back(std::make_unique<TableEvent>(context));
    streams.push_back(std::make_unique<TableStream>(context));
    write_host(pinned[i]->at(0), red);
    streams[i]->copy(KEEL_COPY_HOST_TO_DEVICE, memory[i]->at(0), sent[i].data(), kBytes);
  }
  for (size_t i = 0; i < gate_count; ++i) gates.push_back(std::make_unique<NativeGate>(context));
  for (size_t i = 0; i < stream_count; ++i) {
    for (const auto& gate : gates) gate->hold(*streams[i]);
    need(streams_of(context).copy(streams[i]->get(), KEEL_COPY_DEVICE_TO_HOST, pinned[i]->at(0),
                                  memory[i]->at(0), kBytes),
         "stream.copy behind a gate");
    events[i]->record(*streams[i]);
  }
  // Open the gates in reverse order of the waits.
  for (size_t left = gate_count; left > 0; --left) {
    for (size_t i = 0; i < stream_count; ++i) {
      check(stays_behind(context, *events[i]),
            fmt::format("work is done with {} of {} gates closed", left, gate_count));
      compare(read_host(pinned[i]->at(0), kBytes), red, "memory that is written to behind a gate");
    }
    gates[left - 1]->open();
  }
  for (size_t i = 0; i < stream_count; ++i) {
    need(events[i]->poll(), "work behind a gate that is open");
    compare(read_host(pinned[i]->at(0), kBytes), sent[i],
            "memory that was written to behind a gate");
  }
  for (const auto& gate : gates) gate->done();
}

// Gates that open before a stream waits on them, and many gates in sequence.
void gates_in_turn(const Context& context) {
  constexpr uint64_t kBytes = 1'001;
  constexpr uint64_t kGates = 40;
  const std::vector<std::byte> sent = Draws(context).bytes(kBytes * kGates);
  std::vector<std::byte> got(sent.size());
  const TableBuffer memory(context, sent.size());
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), sent.data(), sent.size());
  for (uint64_t i = 0; i < kGates; ++i) {
    NativeGate gate(context);
    if (i % 2 == 0) gate.open();
    gate.hold(stream);
    if (i % 2 != 0) gate.open();
    stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data() + i * kBytes, memory.at(i * kBytes), kBytes);
    gate.done();
  }
  check_equal(got, sent, "copies behind gates that were opened");
}

// ---- memory by streams, and of two devices --------------------------------------------

// A stream allocation holds what the stream writes; each free function must accept memory of either
// allocation function.
void stream_alloc(const Context& context) {
  constexpr uint64_t kBytes = 70'001;
  constexpr int kRounds = 24;
  Draws draws(context);
  std::vector<std::byte> sent = draws.bytes(kBytes);
  std::vector<std::byte> got(kBytes);
  const TableStream stream(context);
  const keel_memory_table& memory = memory_of(context);
  keel_plugin_device* const device = device_of(context).get();
  for (int i = 0; i < kRounds; ++i) {
    const uint64_t size = 1 + draws.below(kBytes);
    void* pointer = nullptr;
    if (i % 3 == 2) {
      need(memory.alloc(device, KEEL_MEMORY_DEVICE, size, /*usage=*/0, &pointer), "memory.alloc");
    } else {
      need(memory.alloc_on_stream(stream.get(), size, &pointer), "memory.alloc_on_stream");
    }
    const uint64_t address = observe(address_of(pointer));
    check(address != 0 && address % context.environment.info.alignment == 0,
          fmt::format("memory.alloc_on_stream gives {:#x}", address));
    need(streams_of(context).copy(stream.get(), KEEL_COPY_HOST_TO_DEVICE, pointer, sent.data(),
                                  size),
         "stream.copy");
    need(
        streams_of(context).copy(stream.get(), KEEL_COPY_DEVICE_TO_HOST, got.data(), pointer, size),
        "stream.copy");
    if (i % 3 == 1) {
      need(stream.settle(), "copies of memory that was had on a stream");
      need(memory.free(device, KEEL_MEMORY_DEVICE, pointer), "memory.free");
    } else {
      need(memory.free_on_stream(stream.get(), pointer), "memory.free_on_stream");
      need(stream.settle(), "memory.free_on_stream");
    }
    check_equal(std::span(got).first(size), std::span(sent).first(size),
                "memory that was had on a stream");
  }
  void* pointer = pointer_to(kUnwritten);
  need_be(KEEL_OUT_OF_MEMORY, memory.alloc_on_stream(stream.get(), uint64_t{1} << 62, &pointer),
          "memory.alloc_on_stream of 2^62 bytes");
  check_unwritten(pointer, "memory.alloc_on_stream");
  need(stream.settle(), "a stream after an allocation on it that failed");
}

void peer_copies(const Context& context) {
  constexpr uint64_t kBytes = 100'003;
  const TableInstance instance(context);
  if (instance.count() < 2) unsupported("the backend has one device");
  Draws draws(context);
  std::array<std::vector<std::byte>, 2> wanted = {draws.bytes(kBytes), draws.bytes(kBytes)};
  const TableDevice first(context, instance.get(), 0, kBytes);
  const TableDevice second(context, instance.get(), 1, kBytes);
  const std::array<const TableDevice*, 2> devices = {&first, &second};
  if (observe(KEEL_HAS(keel_memory_table, &memory_of(context), peer_enable))) {
    for (const size_t each : {0, 1}) {
      const keel_status status = observe_status(
          memory_of(context).peer_enable(devices[each]->get(), devices[1 - each]->get()));
      check(status == KEEL_OK || status == KEEL_UNSUPPORTED,
            fmt::format("memory.peer_enable: {}", keel_status_name(status)));
    }
  }
  for (const size_t each : {0, 1}) devices[each]->write(wanted[each]);
  for (int i = 0; i < 32; ++i) {
    const auto to = static_cast<size_t>(i % 2);
    const TableDevice& on = *devices[static_cast<size_t>(i / 2 % 2)];  // a stream of either device
    const uint64_t size = 1 + draws.below(i % 4 == 0 ? 60'000 : 700);
    const uint64_t destination = draws.below(kBytes - size);
    const uint64_t source = draws.below(kBytes - size);
    need(
        streams_of(context).copy_peer(on.stream(), devices[to]->get(), devices[to]->at(destination),
                                      devices[1 - to]->get(), devices[1 - to]->at(source), size),
        "stream.copy_peer");
    on.settle();
    std::copy_n(wanted[1 - to].begin() + static_cast<std::ptrdiff_t>(source), size,
                wanted[to].begin() + static_cast<std::ptrdiff_t>(destination));
  }
  for (const size_t each : {0, 1}) {
    devices[each]->expect(wanted[each],
                          fmt::format("memory of device {}, copied to and from", each));
  }
}

// A copy between devices takes its turn in the stream, of either device: behind fills of the memory
// that it reads or writes, and before the fill of its source that follows.
void peer_order(const Context& context) {
  constexpr uint64_t kBytes = 1 << 20;
  constexpr uint32_t kFills = 24;
  const TableInstance instance(context);
  if (instance.count() < 2) unsupported("the backend has one device");
  Draws draws(context);
  const TableDevice first(context, instance.get(), 0, kBytes);
  const TableDevice second(context, instance.get(), 1, kBytes);
  const std::array<const TableDevice*, 2> devices = {&first, &second};
  for (uint32_t round = 0; round < 8; ++round) {
    const TableDevice& from = *devices[round % 2];
    const TableDevice& to = *devices[1 - round % 2];
    const bool is_source = round / 2 % 2 == 0;  // whether the stream is the source's
    const TableDevice& on = is_source ? from : to;
    const std::vector<std::byte> sent = draws.bytes(kBytes);
    from.write(sent);
    to.write(draws.bytes(kBytes));
    const auto fill = [&](uint32_t word) {
      need(streams_of(context).fill(on.stream(), on.at(0), &word, sizeof(word), kBytes),
           "stream.fill");
    };
    for (uint32_t i = 0; i < kFills; ++i) fill(i + 1);
    need(streams_of(context).copy_peer(on.stream(), to.get(), to.at(0), from.get(), from.at(0),
                                       kBytes),
         "stream.copy_peer");
    if (is_source) fill(0);
    on.settle();
    std::vector<std::byte> wanted = sent;
    if (is_source) {
      constexpr uint32_t kLast = kFills;
      for (uint64_t at = 0; at < kBytes; at += sizeof(kLast)) {
        std::memcpy(wanted.data() + at, &kLast, sizeof(kLast));
      }
    }
    to.expect(wanted, fmt::format("a copy between devices behind fills of its {}",
                                  is_source ? "source" : "destination"));
  }
}

}  // namespace

void add_claim_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back({id, capabilities, false, std::move(body)});
  };
  add("core/tables/stream/priorities", priorities);
  add("core/tables/fresh_thread", fresh_thread);
  for (const uint64_t size : {uint64_t{4000}, 6 * kMiB + 5}) {
    add(
        fmt::format("async/tables/pageable/to_device_{}", size),
        [size](const Context& c) { pageable_async(c, KEEL_COPY_HOST_TO_DEVICE, size); },
        KEEL_CAPABILITY_PAGEABLE_ASYNC);
    add(
        fmt::format("async/tables/pageable/from_device_{}", size),
        [size](const Context& c) { pageable_async(c, KEEL_COPY_DEVICE_TO_HOST, size); },
        KEEL_CAPABILITY_PAGEABLE_ASYNC);
  }
  add("async/tables/timing/host", timing, KEEL_CAPABILITY_TIMING);
  constexpr uint64_t kGate = KEEL_CAPABILITY_NATIVE_GATE | KEEL_CAPABILITY_PINNED;
  add(
      "async/tables/gate/one", [](const Context& c) { gates(c, 1, 1); }, kGate);
  add(
      "async/tables/gate/two", [](const Context& c) { gates(c, 1, 2); }, kGate);
  add(
      "async/tables/gate/streams", [](const Context& c) { gates(c, 3, 1); }, kGate);
  add("async/tables/gate/in_turn", gates_in_turn, KEEL_CAPABILITY_NATIVE_GATE);
  add("memory/tables/on_stream", stream_alloc, KEEL_CAPABILITY_STREAM_ALLOC);
  add("memory/tables/peer", peer_copies, KEEL_CAPABILITY_PEER_COPY);
  add("memory/tables/peer_order", peer_order, KEEL_CAPABILITY_PEER_COPY | KEEL_CAPABILITY_FILL);
}

}  // namespace keel::conformance
