// SPDX-License-Identifier: Apache-2.0
// Level async: events, order within and across streams, deadlines of waits, gates.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "conformance/harness.h"
#include "conformance/op_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;
// 12 fills of 16 MiB take 20 ms at 10 GB/s, longer than any host check.
constexpr uint64_t kBusyBytes = 16 * kMiB;
constexpr uint32_t kBusyRounds = 12;
constexpr uint32_t kWord = 0x5eed0001;
constexpr uint32_t kStale = 0xbadbadba;

// Returns pinned memory filled with |kStale|, the content before a download arrives.
Buffer stale_host(const Context& context, uint64_t size) {
  Buffer host(context.device(), KEEL_MEMORY_PINNED, size);
  for (uint64_t offset = 0; offset < size; offset += sizeof(kStale)) {
    std::memcpy(host.at(offset), &kStale, sizeof(kStale));
  }
  return host;
}

// Spins until the status of |event| is not KEEL_NOT_READY.
void poll(const Context& context, const Event& event) {
  must(
      conformance::poll([&] { return keel_event_query(event.get()); }, context.environment.wait_ns),
      "keel_event_query, polled");
}

// ---- events ---------------------------------------------------------------------------

enum class Await { kQuery, kWait, kStream };

// Completes and records |event| so often that every later record uses a real plugin event; Keel
// avoids plugin events for some dozens of records before.
void wear_in(const Context& context, const Stream& stream, const Event& event) {
  for (int i = 0; i < 100; ++i) {
    event.record(stream);
    must(keel_event_wait(event.get(), context.environment.wait_ns), "keel_event_wait");
  }
}

// An event must not complete before the preceding download. The host reads with no other wait in
// between, and reads the last bytes first, because they arrive last.
void event_not_early(const Context& context, Await await) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  const Event event;
  wear_in(context, stream, event);
  keep_busy(stream, device, kWord, kBusyRounds);
  stream.download(host.host(), device.data());
  event.record(stream);
  if (await == Await::kQuery) {
    poll(context, event);
  } else if (await == Await::kWait) {
    must(keel_event_wait(event.get(), context.environment.wait_ns), "keel_event_wait");
  } else {
    stream.synchronize();
  }
  check_filled(host.host().last(64), kWord, "the tail of the download before the event");
  check_filled(host.host(), kWord, "the download before the event");
}

void rerecorded(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  const Event event;
  wear_in(context, stream, event);
  event.record(stream);  // completes at once: the later record counts
  keep_busy(stream, device, kWord, kBusyRounds);
  stream.download(host.host(), device.data());
  event.record(stream);
  poll(context, event);
  check_filled(host.host().last(64), kWord, "the tail of the download before the later record");
  check_filled(host.host(), kWord, "the download before the later record");
}

// An event of one stream must not complete because another stream is idle, nor the reverse.
void events_are_separate(const Context& context) {
  const Stream busy(context);
  const Stream idle(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  const Event on_idle;
  const Event on_busy;
  keep_busy(busy, device, kWord, kBusyRounds);
  busy.download(host.host(), device.data());
  on_busy.record(busy);
  on_idle.record(idle);
  must(keel_event_wait(on_idle.get(), context.environment.wait_ns), "wait for the idle stream");
  poll(context, on_busy);
  check_filled(host.host(), kWord, "the busy stream's download");
}

// ---- asynchronous at all --------------------------------------------------------------

// Enqueueing must return before the work is done: a query still reports the work as unfinished, and
// the enqueue calls took less than half of the work's time. A host that is delayed in between may
// miss both, so the case doubles the work up to 16 times.
void returns_early(const Context& context) {
  // Bandwidth grows with memory: a fill of 16 MiB takes 7 us on an H100, enqueueing it 3.
  const uint64_t bytes =
      std::clamp(context.environment.info.memory_bytes / 512, kBusyBytes, 8 * kBusyBytes);
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, bytes);
  const Event event;
  for (uint32_t rounds = kBusyRounds; rounds <= 16 * kBusyRounds; rounds *= 2) {
    const int64_t start = observe_now();
    keep_busy(stream, device, kWord, rounds);
    const int64_t away = observe_now() - start;
    event.record(stream);
    const keel_status status = observe_status(keel_event_query(event.get()));
    stream.synchronize();
    const int64_t whole = observe_now() - start;
    if (status == KEEL_NOT_READY && 2 * away < whole) return;
    if (status != KEEL_NOT_READY) must(status, "keel_event_query");
  }
  fail_case(fmt::format("enqueueing {} fills of {} bytes returned only when they were done",
                        16 * kBusyRounds, bytes));
}

// A wait with a twentieth of the work's time must return KEEL_TIMED_OUT while the work continues,
// which a query confirms. A host that is delayed for longer than all the work takes cannot observe
// that: the case retries, and also accepts a wait that took at most ten times its deadline.
void wait_keeps_deadline(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Event event;
  uint32_t rounds = kBusyRounds;
  const auto run = [&] {
    const int64_t start = observe_now();
    keep_busy(stream, device, kWord, rounds);
    event.record(stream);
    must(keel_event_wait(event.get(), context.environment.wait_ns), "keel_event_wait");
    return observe_now() - start;
  };
  int64_t whole_ns = run();
  while (whole_ns < 200'000'000 && rounds < 4096) {
    rounds *= 2;
    whole_ns = run();
  }
  int64_t deadline_ns = whole_ns / 20;
  constexpr int kAttempts = 12;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    keep_busy(stream, device, kWord, rounds);
    event.record(stream);
    const int64_t start = observe_now();
    const keel_status status = observe_status(keel_event_wait(event.get(), deadline_ns));
    const int64_t waited_ns = observe_now() - start;
    const bool goes_on = observe_status(keel_event_query(event.get())) == KEEL_NOT_READY;
    stream.synchronize();
    if (status == KEEL_OK) {  // a fast run, or a host delayed while enqueueing
      deadline_ns = deadline_ns / 2 + 1;
      continue;
    }
    must_be(KEEL_TIMED_OUT, status, "a wait with a deadline before the work's end");
    if (goes_on || waited_ns <= 10 * deadline_ns) return;
  }
  fail_case(fmt::format("{} waits with a twentieth of the work's time all came back at its end",
                        kAttempts));
}

void wait_zero_timeout(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Event event;
  keep_busy(stream, device, kWord, kBusyRounds);
  event.record(stream);
  const keel_status status = observe_status(keel_event_wait(event.get(), /*timeout_ns=*/0));
  if (status != KEEL_OK) must_be(KEEL_TIMED_OUT, status, "keel_event_wait with no time");
  must(keel_event_wait(event.get(), context.environment.wait_ns), "the wait after it");
}

void stream_query(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  keep_busy(stream, device, kWord, kBusyRounds);
  stream.download(host.host(), device.data());
  must(conformance::poll([&] { return keel_stream_query(stream.get()); },
                         context.environment.wait_ns),
       "keel_stream_query, polled");
  check_filled(host.host().last(64), kWord, "the tail of the download on the stream");
  check_filled(host.host(), kWord, "the download on the stream");
}

// ---- order ------------------------------------------------------------------------------

// A copy enqueued behind slow fills must read the last of them, neither the content at enqueue time
// nor that of later work.
void copy_keeps_its_place(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer other(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  keep_busy(stream, device, kWord, kBusyRounds);
  stream.copy(other.data(), device.data(), kBusyBytes);
  stream.fill(device.data(), kStale, kBusyBytes);
  stream.download(host.host(), other.data());
  stream.synchronize();
  check_filled(host.host(), kWord, "a copy between two fills");
}

void upload_keeps_its_place(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer source(context.device(), KEEL_MEMORY_PINNED, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  const std::vector<std::byte> sent = random_bytes(context, 0, kBusyBytes);
  std::copy(sent.begin(), sent.end(), source.data());
  keep_busy(stream, device, kStale, kBusyRounds);
  stream.upload(device.data(), source.host());  // must not run before the fills
  stream.download(host.host(), device.data());
  stream.synchronize();
  check_equal(host.host(), sent, "an upload behind fills of the same memory");
  // A copy that overtakes the fills may have read its own upload, so read again after the fills.
  stream.download(host.host(), device.data());
  stream.synchronize();
  check_equal(host.host(), sent, "what an upload left behind fills of the same memory");
}

// The second stream copies the data that the first stream wrote before the event.
void order_by_event(const Context& context) {
  const Stream writer(context);
  const Stream reader(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Buffer host = stale_host(context, kBusyBytes);
  const Event written;
  keep_busy(writer, device, kWord, kBusyRounds);
  written.record(writer);
  must(keel_stream_wait_event(reader.get(), written.get()), "keel_stream_wait_event");
  reader.download(host.host(), device.data());
  reader.synchronize();
  check_filled(host.host(), kWord, "the other stream's copy behind the event");
}

// Two streams alternate by events, often enough to reveal one lost dependency.
void ping_pong(const Context& context) {
  constexpr uint64_t kBytes = 2 * kMiB;
  constexpr uint32_t kRounds = 24;
  const Stream streams[2] = {Stream(context), Stream(context)};
  const Buffer buffers[2] = {{context.device(), KEEL_MEMORY_DEVICE, kBytes},
                             {context.device(), KEEL_MEMORY_DEVICE, kBytes}};
  const std::vector<std::byte> sent = random_bytes(context, 0, kBytes);
  std::vector<std::byte> received(kBytes);
  const Event turn;
  streams[0].upload(buffers[0].data(), sent);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const Stream& from = streams[round % 2];
    const Stream& to = streams[(round + 1) % 2];
    turn.record(from);
    must(keel_stream_wait_event(to.get(), turn.get()), "keel_stream_wait_event");
    to.copy(buffers[(round + 1) % 2].data(), buffers[round % 2].data(), kBytes);
    to.fill(buffers[round % 2].data(), kStale + round, kBytes);
  }
  streams[kRounds % 2].download(received, buffers[kRounds % 2].data());
  streams[kRounds % 2].synchronize();
  check_equal(received, sent, fmt::format("after {} turns", kRounds));
}

void many_streams(const Context& context) {
  constexpr uint32_t kStreams = 16;
  constexpr uint64_t kBytes = 300'000;
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::byte>> received(kStreams, std::vector<std::byte>(kBytes));
  for (uint32_t i = 0; i < kStreams; ++i) {
    streams.emplace_back(context);
    buffers.emplace_back(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  }
  for (uint32_t round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < kStreams; ++i) {
      streams[i].fill(buffers[i].data(), i << 16 | round, kBytes);
    }
  }
  for (uint32_t i = 0; i < kStreams; ++i) streams[i].download(received[i], buffers[i].data());
  for (uint32_t i = 0; i < kStreams; ++i) {
    streams[i].synchronize();
    check_filled(received[i], i << 16 | 9, fmt::format("stream {}", i));
  }
}

void priorities(const Context& context) {
  std::vector<std::byte> received(4096);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, 4096);
  for (const int32_t priority : {-1000, -1, 0, 1, 1000}) {  // clamped to the supported range
    const Stream stream(context, context.device(), priority);
    stream.fill(device.data(), static_cast<uint32_t>(priority), 4096);
    stream.download(received, device.data());
    stream.synchronize();
    check_filled(received, static_cast<uint32_t>(priority), fmt::format("priority {}", priority));
  }
}

// ---- operators on streams -----------------------------------------------------------------

// 12 additions of 4 Mi elements take as long as the fills.
constexpr int64_t kOpElements = 4 << 20;
constexpr uint32_t kOpRounds = 12;

void op_before_event(const Context& context) {
  const Stream stream(context);
  const AddChain chain(stream, kOpElements);
  const Buffer host = stale_host(context, chain.bytes());
  const Event event;
  chain.enqueue(kOpRounds);
  stream.download(host.host(), chain.result());
  event.record(stream);
  poll(context, event);
  check_filled(host.host().last(64), AddChain::word(kOpRounds), "the tail of the last sum");
  check_filled(host.host(), AddChain::word(kOpRounds), "the sum before the event");
}

void op_behind_event(const Context& context) {
  const Stream writer(context);
  const Stream reader(context);
  const AddChain chain(writer, kOpElements);
  const Buffer host = stale_host(context, chain.bytes());
  const Event written;
  chain.enqueue(kOpRounds);
  written.record(writer);
  must(keel_stream_wait_event(reader.get(), written.get()), "keel_stream_wait_event");
  reader.download(host.host(), chain.result());
  reader.synchronize();
  check_filled(host.host(), AddChain::word(kOpRounds), "the sum behind the event");
}

// ---- gates ----------------------------------------------------------------------------------

void gate_holds(const Context& context) {
  const Stream stream(context);
  const Stream witness(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kMiB);
  std::vector<std::byte> received(kMiB);
  stream.fill(device.data(), kStale, kMiB);
  stream.synchronize();
  const Gate gate;
  const Event behind;
  must(keel_stream_wait_gate(stream.get(), gate.get()), "keel_stream_wait_gate");
  stream.fill(device.data(), kWord, kMiB);
  behind.record(stream);
  must_be(KEEL_NOT_READY, keel_event_query(behind.get()), "an event behind a closed gate");
  must_be(KEEL_TIMED_OUT, keel_event_wait(behind.get(), 1'000'000),
          "a wait for an event behind a closed gate");
  witness.download(received, device.data());
  witness.synchronize();
  check_filled(received, kStale, "memory that work behind the closed gate would change");
  gate.open();
  must(keel_event_wait(behind.get(), context.environment.wait_ns), "the event, gate open");
  witness.download(received, device.data());
  witness.synchronize();
  check_filled(received, kWord, "memory after the gate was opened");
}

// The gate holds one stream, and through an event another stream; the order is preserved.
void gate_and_event(const Context& context) {
  const Stream held(context);
  const Stream follower(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kMiB);
  std::vector<std::byte> received(kMiB);
  const Gate gate;
  const Event event;
  must(keel_stream_wait_gate(held.get(), gate.get()), "keel_stream_wait_gate");
  held.fill(device.data(), kStale, kMiB);
  held.fill(device.data(), kWord, kMiB);
  event.record(held);
  must(keel_stream_wait_event(follower.get(), event.get()), "keel_stream_wait_event");
  follower.download(received, device.data());
  must_be(KEEL_NOT_READY, keel_stream_query(follower.get()), "the follower, gate closed");
  gate.open();
  follower.synchronize();
  check_filled(received, kWord, "what the follower read");
}

void gate_with_error(const Context& context) {
  const Stream stream(context);
  const Stream follower(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kMiB);
  std::vector<std::byte> received(kMiB);
  stream.fill(device.data(), kWord, kMiB);
  stream.synchronize();
  const Gate gate;
  const Event event;
  must(keel_stream_wait_gate(stream.get(), gate.get()), "keel_stream_wait_gate");
  stream.fill(device.data(), kStale, kMiB);
  event.record(stream);
  must(keel_stream_wait_event(follower.get(), event.get()), "keel_stream_wait_event");
  gate.open(KEEL_ABORTED);
  const int64_t wait_ns = context.environment.wait_ns;
  must_be(KEEL_ABORTED, keel_stream_synchronize(stream.get(), wait_ns), "the stream behind");
  must_be(KEEL_ABORTED, keel_event_wait(event.get(), wait_ns), "the event behind");
  must_be(KEEL_ABORTED, keel_stream_synchronize(follower.get(), wait_ns),
          "a stream that waited for the event");
  must(keel_stream_recover(stream.get(), wait_ns), "keel_stream_recover");
  must(keel_stream_recover(follower.get(), wait_ns), "keel_stream_recover of the follower");
  stream.download(received, device.data());
  stream.synchronize();
  check_filled(received, kWord, "memory that dropped work would have changed");
}

// ---- timing -----------------------------------------------------------------------------------

void timing(const Context& context) {
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBusyBytes);
  const Event start(KEEL_EVENT_TIMING);
  const Event middle(KEEL_EVENT_TIMING);
  const Event end(KEEL_EVENT_TIMING);
  const int64_t before = observe_now();
  start.record(stream);
  keep_busy(stream, device, kWord, kBusyRounds);
  middle.record(stream);
  keep_busy(stream, device, kWord, kBusyRounds);
  end.record(stream);
  must(keel_event_wait(end.get(), context.environment.wait_ns), "keel_event_wait");
  const int64_t wall_ns = observe_now() - before;
  const auto elapsed = [](const Event& from, const Event& to) {
    uint64_t nanoseconds = 0;
    must(keel_event_elapsed(from.get(), to.get(), &nanoseconds), "keel_event_elapsed");
    return observe(nanoseconds);
  };
  const uint64_t first = elapsed(start, middle);
  const uint64_t whole = elapsed(start, end);
  check(elapsed(start, start) == 0, "from an event to itself time passes");
  check(whole != 0, "work took no time");
  check(first <= whole, fmt::format("{} ns to the middle, {} ns to the end", first, whole));
  // Also detects a negative time, which is huge as an unsigned number.
  check(whole <= 10 * static_cast<uint64_t>(wall_ns),
        fmt::format("{} ns on the device, {} ns on the host's clock", whole, wall_ns));
}

}  // namespace

void add_async_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = KEEL_CAPABILITY_PINNED) {
    cases->push_back({std::string("async/") + id, capabilities, /*full=*/false, std::move(body)});
  };
  add("event/not_early/query", [](const Context& c) { event_not_early(c, Await::kQuery); });
  add("event/not_early/wait", [](const Context& c) { event_not_early(c, Await::kWait); });
  add("event/not_early/synchronize", [](const Context& c) { event_not_early(c, Await::kStream); });
  add("event/not_early/rerecorded", rerecorded);
  add("event/not_early/stream_query", stream_query);
  add("event/not_early/op", op_before_event, KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_OPS);
  add("event/separate", events_are_separate);
  add("event/wait_zero_timeout", wait_zero_timeout, 0);
  add("event/wait_keeps_deadline", wait_keeps_deadline, KEEL_CAPABILITY_ASYNC);
  add("enqueue/returns_early", returns_early, KEEL_CAPABILITY_ASYNC);
  add("order/copy_keeps_its_place", copy_keeps_its_place);
  add("order/upload_keeps_its_place", upload_keeps_its_place);
  add("order/by_event", order_by_event);
  add("order/op_behind_event", op_behind_event, KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_OPS);
  add("order/ping_pong", ping_pong, 0);
  add("streams/many", many_streams, 0);
  add("streams/priorities", priorities, KEEL_CAPABILITY_PRIORITY);
  add("gate/holds", gate_holds, 0);
  add("gate/through_an_event", gate_and_event, 0);
  add("gate/opened_with_error", gate_with_error, 0);
  add("timing/monotone", timing, KEEL_CAPABILITY_TIMING);
}

}  // namespace keel::conformance
