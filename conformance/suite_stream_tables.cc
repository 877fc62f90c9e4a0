// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: enqueueing slots that must not block and must keep
// stream order, and streams that wait for events. Core's pools, serialization and repeated queries
// hide such faults from the cases through keel.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "conformance/harness.h"
#include "conformance/op_calls.h"
#include "conformance/table_bench.h"
#include "conformance/table_kernel.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 256 << 10;
constexpr uint32_t kWord = 0x5eed0001;
constexpr uint32_t kOther = 0x0ddba11;
constexpr uint32_t kStale = 0xbadbadba;

std::byte* stale_pinned(TableBench& bench, uint64_t size) {
  std::byte* const pinned = bench.memory(size, KEEL_MEMORY_PINNED);
  write_host(pinned, words(kStale, size));
  return pinned;
}

void check_pinned(const std::byte* pinned, uint32_t word, uint64_t size, const std::string& what,
                  Where where = Where::current()) {
  compare(read_host(pinned, size, where), words(word, size), what, where);
}

// ---- each slot that enqueues: it comes back at once, and its work waits for its turn --------

enum class Slot { kUpload, kDownload, kWithin, kFill, kOp, kPageableUpload, kPageableDownload };

void enqueue_op(const TableBench& bench, std::byte* destination) {
  const keel_tensor one = kit::make_tensor(destination + kBytes, KEEL_FLOAT32, {kBytes / 4});
  OpCall add(KEEL_OP_ADD, {one, one}, kit::make_tensor(destination, KEEL_FLOAT32, {kBytes / 4}));
  need(device_of(bench.context()).plugin().op->run(bench.stream(0), add.get(), nullptr), "op.run");
  add.spoil();  // the call only borrows it
}

// The slot's result must be |wanted|: the slot runs after the fill before it and before the fill
// behind it.
void enqueue_slot(const Context& context, Slot slot) {
  const bool pageable_down = slot == Slot::kPageableDownload;
  // Pageable memory in large pieces, for which a plugin may use another staging path.
  const uint64_t size = pageable_down || slot == Slot::kPageableUpload ? uint64_t{4} << 20 : kBytes;
  TableBench bench(context, 2);
  std::byte* const device = bench.memory(2 * size);
  std::byte* const source = bench.memory(size);
  std::byte* const pinned = bench.memory(size, KEEL_MEMORY_PINNED);
  std::byte* const result = stale_pinned(bench, size);
  std::byte* const pageable = bench.host_memory(size);
  const bool op = slot == Slot::kOp;
  const float one = 1;
  const float two = 2;
  uint32_t wanted = kWord;
  if (op) std::memcpy(&wanted, &two, sizeof(two));
  uint32_t addend = 0;
  std::memcpy(&addend, &one, sizeof(one));
  if (slot == Slot::kPageableUpload) std::memcpy(pageable, words(kWord, size).data(), size);
  write_host(pinned, words(kWord, size));
  bench.fill(0, source, kWord, size);
  bench.settle();
  std::vector<std::byte> early;
  bench.behind_work(0, [&] {
    write_host(result, words(kStale, size));
    if (pageable_down) std::memcpy(pageable, words(kStale, size).data(), size);
    bench.fill(0, device, kOther, size);
    bench.fill(0, device + size, addend, size);
    switch (slot) {
      case Slot::kUpload:
        bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device, pinned, size);
        break;
      case Slot::kPageableUpload:
        bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device, pageable, size);
        break;
      case Slot::kWithin:
        bench.copy(0, KEEL_COPY_DEVICE_TO_DEVICE, device, source, size);
        break;
      case Slot::kFill: {
        uint32_t pattern = kWord;
        need(bench.table().fill(bench.stream(0), device, &pattern, sizeof(pattern), size),
             "stream.fill");
        pattern = kStale;  // the call only borrows it
        break;
      }
      case Slot::kOp:
        enqueue_op(bench, device);
        break;
      default:
        bench.fill(0, device, kWord, size);
    }
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, pageable_down ? pageable : result, device, size);
    bench.fill(0, device, kStale, size);
    early =
        pageable_down ? std::vector<std::byte>(pageable, pageable + size) : read_host(result, size);
    if (pageable_down) observe_bytes(early);
  });
  compare(early, words(kStale, size), "a download behind work that is not done, before its turn");
  bench.settle();
  if (pageable_down) {
    check_equal({pageable, size}, words(wanted, size), "what the slot left, behind a fill");
  } else {
    check_pinned(result, wanted, size, "what the slot left, behind a fill");
  }
}

// Staging memory is not used again before its copy has run, however many copies of pageable memory
// wait.
void many_pageable_uploads(const Context& context) {
  constexpr uint32_t kCopies = 256;
  constexpr uint64_t kSize = 64 << 10;
  TableBench bench(context, 1);
  std::byte* const device = bench.memory(kCopies * kSize);
  std::vector<std::byte*> pageable;
  for (uint32_t i = 0; i < kCopies; ++i) {
    pageable.push_back(bench.host_memory(kSize));
    std::memcpy(pageable.back(), words(kWord + i, kSize).data(), kSize);
  }
  bench.occupy(0);
  for (uint32_t i = 0; i < kCopies; ++i) {
    bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device + i * kSize, pageable[i], kSize);
  }
  bench.settle();
  for (uint32_t i = 0; i < kCopies; ++i) {
    bench.stream_object(0).expect(device + i * kSize, words(kWord + i, kSize),
                                  fmt::format("upload {} of {} from pageable memory", i, kCopies));
  }
}

void enqueue_launch(const Context& context) {
  constexpr uint32_t kFirst = 7;
  constexpr uint64_t kWords = kBytes / sizeof(uint32_t);
  TableBench bench(context, 1);
  const TableKernel kernel(
      bench.context(), [](const KernelSet&) { return true; },
      "the suite has no kernel in a format that the device takes");
  std::byte* const device = bench.memory(kBytes);
  std::byte* const result = stale_pinned(bench, kBytes);
  bench.settle();
  std::vector<std::byte> early;
  bench.behind_work(0, [&] {
    write_host(result, words(kStale, kBytes));
    bench.fill(0, device, kWord, kBytes);
    kernel.launch(bench.stream(0), device, kWords, kFirst);
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, kBytes);
    bench.fill(0, device, kStale, kBytes);
    early = read_host(result, kBytes);
  });
  compare(early, words(kStale, kBytes), "a download behind work that is not done, before its turn");
  bench.settle();
  std::vector<std::byte> wanted(kBytes);
  for (uint32_t i = 0; i < kWords; ++i) {
    const uint32_t word = kWord + i + kFirst;
    std::memcpy(&wanted[i * sizeof(word)], &word, sizeof(word));
  }
  compare(read_host(result, kBytes), wanted, "what a launch left, behind a fill");
  kernel.unload();
}

// Records and stream_wait_event calls in large numbers, and creation and destruction beside work.
void enqueue_events(const Context& context) {
  constexpr uint32_t kEvents = 32;
  TableBench bench(context, 2);
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < kEvents; ++i) events.push_back(bench.event());
  std::vector<keel_status> states(kEvents);
  bench.behind_work(0, [&] {
    for (uint32_t i = 0; i < kEvents; ++i) {
      bench.record(events[i], 0);
      bench.wait_event(1, events[i]);
    }
    for (uint32_t i = 0; i < kEvents; ++i) states[i] = bench.query(events[i]);
  });
  for (uint32_t i = 0; i < kEvents; ++i) {
    check(states[i] == KEEL_NOT_READY,
          fmt::format("event {} behind work that is not done: {}", i, keel_status_name(states[i])));
  }
  bench.settle();
  for (keel_plugin_event* const event : events) need(bench.query(event), "event_query");
}

// ---- order within a stream ------------------------------------------------------------------

// Small work directly behind large work and the reverse, for each kind that moves data.
void small_and_large(const Context& context) {
  constexpr uint64_t kLarge = 4 << 20;
  constexpr uint64_t kSmall = 64;
  constexpr uint32_t kRounds = 6;
  TableBench bench(context, 1);
  std::byte* const large = bench.memory(kLarge);
  std::byte* const other = bench.memory(kLarge);
  std::byte* const slots = bench.memory(kRounds * kSmall);
  std::byte* const source = stale_pinned(bench, kLarge);
  std::byte* const down = stale_pinned(bench, kLarge);
  std::byte* const small = bench.memory(kSmall, KEEL_MEMORY_PINNED);
  std::byte* const got = stale_pinned(bench, kRounds * kSmall);
  write_host(small, words(kOther, kSmall));
  const uint64_t tail = kLarge - kSmall;
  for (uint32_t round = 0; round < kRounds; ++round) {
    bench.fill(0, large, kWord + round, kLarge);
    // Reads the tail behind the large fill, then overwrites it.
    bench.copy(0, KEEL_COPY_DEVICE_TO_DEVICE, slots + round * kSmall, large + tail, kSmall);
    bench.fill(0, large + tail, kStale, kSmall);
  }
  bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, got, slots, kRounds * kSmall);
  bench.fill(0, large, kWord, kLarge);
  bench.copy(0, KEEL_COPY_DEVICE_TO_DEVICE, other, large, kLarge);
  bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, large + tail, small, kSmall);  // not before the read
  bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, down, other, kLarge);
  bench.fill(0, other + tail, kStale, kSmall);  // not before the read
  bench.settle();
  for (uint32_t round = 0; round < kRounds; ++round) {
    check_pinned(got + round * kSmall, kWord + round, kSmall,
                 fmt::format("a small copy behind a large fill, round {}", round));
  }
  check_pinned(down, kWord, kLarge, "a large copy and download between small ones");
  // A small download behind a large upload.
  bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, large, source, kLarge);
  bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, down, large + tail, kSmall);
  bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, large + tail, small, kSmall);
  bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, down + kSmall, large + tail, kSmall);
  bench.settle();
  check_pinned(down, kStale, kSmall, "a small download behind a large upload");
  check_pinned(down + kSmall, kOther, kSmall, "a small download behind a small upload");
}

// An upload behind one fill or copy on an idle stream: plugins that gather work must not take the
// stream for idle still, and write from the host at once.
void behind_one(const Context& context) {
  constexpr uint64_t kMost = 60'000;
  TableBench bench(context, 1);
  std::byte* const device = bench.memory(kMost);
  std::byte* const other = bench.memory(kMost);
  std::byte* const pageable = bench.host_memory(kMost);
  std::byte* const got = stale_pinned(bench, kMost);
  write_host(pageable, words(kOther, kMost));
  for (const uint64_t size : {uint64_t{4}, uint64_t{64}, uint64_t{4096}, kMost}) {
    for (const bool fills : {true, false}) {
      bench.fill(0, other, kStale, size);
      bench.settle();
      if (fills) {
        bench.fill(0, device, kStale, size);
      } else {
        bench.copy(0, KEEL_COPY_DEVICE_TO_DEVICE, device, other, size);
      }
      bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device, pageable, size);
      bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, got, device, size);
      bench.settle();
      check_pinned(got, kOther, size,
                   fmt::format("an upload of {} bytes of pageable memory behind one {}", size,
                               fills ? "fill" : "copy"));
    }
  }
}

// Each copy reads the previous copy's result, with thousands in flight.
void long_chain(const Context& context) {
  constexpr uint32_t kLinks = 2000;
  TableBench bench(context, 1);
  std::byte* const device = bench.memory((kLinks + 1) * 4);
  std::byte* const result = stale_pinned(bench, (kLinks + 1) * 4);
  bench.copy(0, KEEL_COPY_HOST_TO_DEVICE, device, result, (kLinks + 1) * 4);
  bench.fill(0, device, kWord, 4);
  Tally links;
  for (uint64_t i = 0; i < kLinks; ++i) {
    links.add(bench.table().copy(bench.stream(0), KEEL_COPY_DEVICE_TO_DEVICE, device + (i + 1) * 4,
                                 device + i * 4, 4));
  }
  need(links.first(), "stream.copy");
  bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, result, device, (kLinks + 1) * 4);
  bench.settle();
  check_pinned(result, kWord, (kLinks + 1) * 4, fmt::format("a chain of {} copies", kLinks));
}

// ---- streams that wait for events -------------------------------------------------------------

// One stream waits for four others, of which any may be last.
void waits_in_a_row(const Context& context) {
  constexpr uint32_t kWriters = 4;
  TableBench bench(context, kWriters + 1);
  std::byte* const device = bench.memory(kWriters * kBytes);
  std::byte* const result = stale_pinned(bench, kWriters * kBytes);
  std::vector<keel_plugin_event*> written;
  for (uint32_t i = 0; i < kWriters; ++i) written.push_back(bench.event());
  keel_plugin_event* const read = bench.event();
  for (uint32_t last = 0; last < kWriters; ++last) {
    bench.fill(kWriters, device, kStale, kWriters * kBytes);
    bench.settle();
    keel_status state = KEEL_OK;
    bench.behind_work(last, [&] {
      for (uint32_t i = 0; i < kWriters; ++i) {
        bench.fill(i, device + i * kBytes, kWord, kBytes);
        bench.record(written[i], i);
        bench.wait_event(kWriters, written[i]);
      }
      bench.copy(kWriters, KEEL_COPY_DEVICE_TO_HOST, result, device, kWriters * kBytes);
      bench.record(read, kWriters);
      state = bench.query(read);
    });
    check(state == KEEL_NOT_READY,
          fmt::format("behind {} waits, number {} for work that is not done, an event is {}",
                      kWriters, last, keel_status_name(state)));
    bench.settle();
    check_pinned(result, kWord, kWriters * kBytes, fmt::format("behind {} waits", kWriters));
  }
}

void one_event_for_many(const Context& context) {
  constexpr uint32_t kReaders = 6;
  TableBench bench(context, kReaders + 1);
  std::byte* const device = bench.memory(kBytes);
  std::byte* const result = stale_pinned(bench, kReaders * kBytes);
  keel_plugin_event* const written = bench.event();
  std::vector<keel_plugin_event*> read;
  for (uint32_t i = 0; i < kReaders; ++i) read.push_back(bench.event());
  std::vector<keel_status> states(kReaders);
  bench.fill(0, device, kStale, kBytes);
  bench.settle();
  bench.behind_work(0, [&] {
    bench.fill(0, device, kWord, kBytes);
    bench.record(written, 0);
    for (uint32_t i = 0; i < kReaders; ++i) {
      bench.wait_event(i + 1, written);
      bench.copy(i + 1, KEEL_COPY_DEVICE_TO_HOST, result + i * kBytes, device, kBytes);
      bench.record(read[i], i + 1);
    }
    pause_ns(20'000'000);  // no wait may time out
    for (uint32_t i = 0; i < kReaders; ++i) states[i] = bench.query(read[i]);
  });
  for (uint32_t i = 0; i < kReaders; ++i) {
    check(states[i] == KEEL_NOT_READY, fmt::format("stream {} of those that wait for one event: {}",
                                                   i, keel_status_name(states[i])));
  }
  bench.settle();
  check_pinned(result, kWord, kReaders * kBytes, "what streams that wait for one event read");
}

// Each stream waits for the previous one; then the events are recorded again while in use.
void chain_of_streams(const Context& context) {
  constexpr uint32_t kStreams = 8;
  TableBench bench(context, kStreams);
  std::byte* const device = bench.memory((kStreams + 1) * kBytes);
  std::byte* const result = stale_pinned(bench, kBytes);
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < kStreams; ++i) events.push_back(bench.event());
  for (uint32_t round = 0; round < 3; ++round) {
    keel_status state = KEEL_OK;
    bench.behind_work(0, [&] {
      bench.fill(0, device, kWord + round, kBytes);
      for (uint32_t i = 0; i < kStreams; ++i) {
        if (i != 0) bench.wait_event(i, events[i - 1]);
        bench.copy(i, KEEL_COPY_DEVICE_TO_DEVICE, device + (i + 1) * kBytes, device + i * kBytes,
                   kBytes);
        if (i + 1 < kStreams) bench.record(events[i], i);
      }
      bench.copy(kStreams - 1, KEEL_COPY_DEVICE_TO_HOST, result, device + kStreams * kBytes,
                 kBytes);
      bench.record(events[kStreams - 1], kStreams - 1);
      state = bench.query(events[kStreams - 1]);
    });
    check(state == KEEL_NOT_READY,
          fmt::format("the last of {} streams in a row: {}", kStreams, keel_status_name(state)));
    bench.settle();
    check_pinned(result, kWord + round, kBytes,
                 fmt::format("through {} streams, round {}", kStreams, round));
  }
}

// A wait for a completed event must not block, and a new record of the event must count.
void wait_for_done(const Context& context) {
  TableBench bench(context, 3);
  std::byte* const device = bench.memory(kBytes);
  std::byte* const result = stale_pinned(bench, kBytes);
  keel_plugin_event* const event = bench.event();
  keel_plugin_event* const behind = bench.event();
  for (uint32_t round = 0; round < 20; ++round) {
    bench.record(event, round % 2);
    need(bench.poll(event), "event_query");
    bench.wait_event(2, event);
    bench.record(behind, 2);
    need(bench.poll(behind), "event_query behind a wait for an event that was done");
  }
  bench.settle();
  keel_status again = KEEL_OK;
  keel_status after = KEEL_OK;
  bench.behind_work(0, [&] {
    bench.fill(0, device, kWord, kBytes);
    bench.record(event, 0);
    again = bench.query(event);
    bench.wait_event(2, event);
    bench.copy(2, KEEL_COPY_DEVICE_TO_HOST, result, device, kBytes);
    bench.record(behind, 2);
    after = bench.query(behind);
  });
  check(again == KEEL_NOT_READY,
        fmt::format("an event that was done, recorded again: {}", keel_status_name(again)));
  check(after == KEEL_NOT_READY, fmt::format("behind a wait for it: {}", keel_status_name(after)));
  bench.settle();
  check_pinned(result, kWord, kBytes, "behind a wait for an event that was recorded again");
}

// Only events order two streams: work enqueued before a wait must continue, and so must a stream
// without waits. A few hardware queues may be shared, so one of several streams must continue.
// Waits have no deadline: none may give up while the event's stream is held.
void waits_hold_up_no_others(const Context& context) {
  constexpr uint32_t kStreams = 8;
  // behind_work() lets go after half of wait_ns.
  const int64_t held_ns = std::min<int64_t>(600'000'000, context.environment.wait_ns / 8);
  TableBench bench(context, kStreams);
  if (!bench.queues_are_separate()) unsupported("all streams share one hardware queue");
  if (!bench.can_hold()) unsupported("no native gate and no test table to hold a stream with");
  keel_plugin_event* const held = bench.event();
  std::vector<keel_plugin_event*> before;
  std::vector<keel_plugin_event*> idle;
  for (uint32_t i = 0; i < kStreams; ++i) before.push_back(bench.event());
  for (uint32_t i = 0; i < kStreams; ++i) idle.push_back(bench.event());
  keel_status waiting = KEEL_NOT_READY;
  keel_status other = KEEL_NOT_READY;
  keel_status behind = KEEL_NOT_READY;
  const auto any = [&](const std::vector<keel_plugin_event*>& events, uint32_t first) {
    keel_status status = KEEL_NOT_READY;
    for (uint32_t i = first; i < kStreams && status == KEEL_NOT_READY; i += 2) {
      status = bench.table().event_query(events[i]);
    }
    return status;
  };
  const int64_t wait_ns = context.environment.wait_ns / 6;
  bench.behind_work(0, [&] {
    bench.record(held, 0);
    for (uint32_t i = 1; i < kStreams; ++i) {
      bench.record(before[i], i);
      if (i % 2 == 1) bench.wait_event(i, held);  // streams with even indices do not wait
      bench.record(idle[i], i);
    }
    waiting = poll([&] { return any(before, 1); }, wait_ns);
    other = poll([&] { return any(idle, 2); }, wait_ns);
    pause_ns(held_ns);
    behind = observe_status(any(idle, 1));
  });
  need_be(KEEL_OK, waiting, "an event before a wait for another stream's, which is held");
  need_be(KEEL_OK, other, "an event of a stream that waits for nothing, while others are held");
  need_be(KEEL_NOT_READY, behind, "an event behind a wait for another stream's, long held");
  bench.settle();
}

}  // namespace

void add_stream_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {std::string("async/tables/") + id,
         capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
         /*full=*/false, std::move(body)});
  };
  const auto add_slot = [&](const char* id, Slot slot, uint64_t capabilities = 0) {
    add(
        id, [slot](const Context& c) { enqueue_slot(c, slot); }, capabilities);
  };
  add_slot("enqueue/upload", Slot::kUpload);
  add_slot("enqueue/download", Slot::kDownload);
  add_slot("enqueue/within", Slot::kWithin);
  add_slot("enqueue/fill", Slot::kFill);
  add_slot("enqueue/op", Slot::kOp, KEEL_CAPABILITY_OPS);
  add_slot("enqueue/pageable_upload", Slot::kPageableUpload, KEEL_CAPABILITY_PAGEABLE_ASYNC);
  add_slot("enqueue/pageable_download", Slot::kPageableDownload, KEEL_CAPABILITY_PAGEABLE_ASYNC);
  add("enqueue/launch", enqueue_launch, KEEL_CAPABILITY_KERNELS);
  add("enqueue/events", enqueue_events);
  add("order/small_and_large", small_and_large);
  add("order/behind_one", behind_one);
  add("order/many_pageable_uploads", many_pageable_uploads);
  add("order/long_chain", long_chain);
  add("waits/in_a_row", waits_in_a_row);
  add("waits/one_event_for_many", one_event_for_many);
  add("waits/chain_of_streams", chain_of_streams);
  add("waits/for_done", wait_for_done);
  add("waits/hold_up_no_others", waits_hold_up_no_others);
}

}  // namespace keel::conformance
