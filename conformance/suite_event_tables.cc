// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: queries and notifications of events, how often and when;
// waits with a deadline, of events and of streams.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>

#include "conformance/harness.h"
#include "conformance/table_bench.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 2 << 20;
constexpr uint64_t kTail = 64;
constexpr uint32_t kWord = 0x5eed0001;
constexpr uint32_t kStale = 0xbadbadba;
constexpr int64_t kMillisecond = 1'000'000;

// ---- queries ------------------------------------------------------------------------------

// Completed events stay completed, pending ones stay pending, also when both exist at once.
void query_stays(const Context& context) {
  constexpr uint32_t kAsked = 200;
  TableBench bench(context, 2);
  keel_plugin_event* const done = bench.event();
  keel_plugin_event* const held = bench.event();
  bench.record(done, 0);
  need(bench.poll(done), "event_query");
  Tally of_done;
  Tally of_held;
  const auto ask = [&](keel_plugin_event* event, keel_status wanted, Tally* tally) {
    const keel_status status = bench.table().event_query(event);
    if (status != wanted && !judging()) tally->add(status == KEEL_OK ? KEEL_UNKNOWN : status);
  };
  bench.behind_work(0, [&] {
    of_held = {};
    bench.record(held, 0);
    for (uint32_t i = 0; i < kAsked; ++i) {
      ask(done, KEEL_OK, &of_done);
      ask(held, KEEL_NOT_READY, &of_held);
    }
    need_be(KEEL_OK, of_done.first(), "event_query of a finished event, again");
  });
  need_be(KEEL_OK, of_held.first(),
          fmt::format("one of {} queries of an event that is not done", kAsked));
  bench.settle();
  for (uint32_t i = 0; i < kAsked; ++i) ask(held, KEEL_OK, &of_held);
  need_be(KEEL_OK, of_held.first(), "event_query of a finished event, again");
}

enum class Await { kQuery, kWait, kNotify, kStreamQuery, kSynchronize };

// Heard, with kTail bytes of host memory as the callback finds them.
struct Watching : Heard {
  const std::byte* watched = nullptr;
  std::array<std::byte, kTail> seen{};

  static void hear(void* user, keel_status status) {
    auto& watching = *static_cast<Watching*>(user);
    if (watching.watched != nullptr) std::memcpy(watching.seen.data(), watching.watched, kTail);
    Heard::hear(static_cast<Heard*>(&watching), status);
  }
};

[[noreturn]] void slot_absent(const char* slot) {
  unsupported(fmt::format("the slot {} is absent", slot));
}

// When a status reports that work is done, the last bytes of the download must have arrived; in
// both orders of asking and completing.
void not_early(const Context& context, Await await) {
  std::deque<Watching> callbacks;  // outlives the streams whose work calls
  TableBench bench(context, 1);
  const keel_stream_table* const table = &bench.table();
  if (await == Await::kWait && !observe(KEEL_HAS(keel_stream_table, table, event_wait))) {
    slot_absent("event_wait");
  }
  if (await == Await::kStreamQuery && !observe(KEEL_HAS(keel_stream_table, table, query))) {
    slot_absent("query");
  }
  if (await == Await::kSynchronize && !observe(KEEL_HAS(keel_stream_table, table, synchronize))) {
    slot_absent("synchronize");
  }
  const int64_t wait_ns = context.environment.wait_ns;
  std::byte* const device = bench.memory(kBytes);
  std::byte* const pinned = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  keel_plugin_event* const event = bench.event();
  for (uint32_t round = 0; round < 6; ++round) {
    const uint32_t word = kWord + round;
    Watching& heard = callbacks.emplace_back();
    heard.watched = judging() ? nullptr : pinned + kBytes - kTail;
    write_host(pinned, words(kStale, kBytes));
    for (uint32_t i = 0; i < 4; ++i) bench.fill(0, device, kStale, kBytes);
    bench.fill(0, device, word, kBytes);
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, pinned, device, kBytes);
    if (await != Await::kStreamQuery && await != Await::kSynchronize) bench.record(event, 0);
    switch (await) {
      case Await::kQuery:
        need(bench.poll(event), "event_query");
        break;
      case Await::kWait:
        need(table->event_wait(event, wait_ns), "event_wait");
        break;
      case Await::kNotify:
        need(table->event_notify(event, Watching::hear, &heard), "event_notify");
        check(await_calls(heard, 1, wait_ns / 2) == 1, "event_notify: not one callback");
        need(heard.status.load(), "the status of event_notify's callback");
        check_equal(heard.seen, words(word, kTail), "the tail of a download in the callback");
        break;
      case Await::kStreamQuery:
        need(poll([&] { return table->query(bench.stream(0)); }, wait_ns), "stream.query");
        break;
      case Await::kSynchronize:
        need(table->synchronize(bench.stream(0), wait_ns), "stream.synchronize");
        break;
    }
    compare(read_host(pinned + kBytes - kTail, kTail), words(word, kTail),
            "the tail of a download that is said to be done");
    bench.settle();
  }
}

// ---- waits --------------------------------------------------------------------------------

using WaitCall = std::function<keel_status(int64_t timeout_ns)>;

WaitCall wait_call(const TableBench& bench, bool of_event, keel_plugin_event* event) {
  const keel_stream_table* const table = &bench.table();
  if (of_event ? !observe(KEEL_HAS(keel_stream_table, table, event_wait))
               : !observe(KEEL_HAS(keel_stream_table, table, synchronize))) {
    slot_absent(of_event ? "event_wait" : "synchronize");
  }
  if (of_event) return [=](int64_t timeout_ns) { return table->event_wait(event, timeout_ns); };
  return [&bench, table](int64_t timeout_ns) {
    return table->synchronize(bench.stream(0), timeout_ns);
  };
}

// A deadline before the end of the work: KEEL_TIMED_OUT, not before the deadline, and while the
// work continues, which behind_work checks.
void wait_times_out(const Context& context, bool of_event) {
  TableBench bench(context, 1);
  keel_plugin_event* const event = bench.event();
  const WaitCall wait = wait_call(bench, of_event, event);
  for (const int64_t timeout_ns : {int64_t{0}, 10 * kMillisecond}) {
    keel_status status = KEEL_OK;
    int64_t waited_ns = 0;
    bench.behind_work(0, [&] {
      bench.record(event, 0);
      const int64_t start = observe_now();
      status = observe_status(wait(timeout_ns));
      waited_ns = observe_now() - start;
    });
    need_be(KEEL_TIMED_OUT, status,
            fmt::format("a wait of {} ms for work that is not done", timeout_ns / kMillisecond));
    check(waited_ns >= timeout_ns / 2,
          fmt::format("a wait of {} ns timed out after {} ns", timeout_ns, waited_ns));
    need(wait(context.environment.wait_ns), "the wait after one that timed out");
    need(wait(0), "a wait of no time for what is done");
    need(wait(timeout_ns), "another wait for what is done");
    bench.settle();
  }
}

// A deadline after the end of the work: the wait ends with the work. The lower 32 bits of the first
// timeout are almost 0; the last timeout overflows when added to the current time.
void wait_lasts(const Context& context, bool of_event) {
  TableBench bench(context, 1);
  keel_plugin_event* const event = bench.event();
  const WaitCall wait = wait_call(bench, of_event, event);
  for (const int64_t timeout_ns : {(int64_t{1} << 32) + 1000, (int64_t{1} << 40), INT64_MAX}) {
    bench.occupy(0);
    bench.record(event, 0);
    const int64_t start = observe_now();
    const keel_status status = observe_status(wait(timeout_ns));
    const int64_t waited_ns = observe_now() - start;
    need(status, fmt::format("a wait of up to {} ns, after {} ns", timeout_ns, waited_ns));
    need(bench.query(event), "event_query after a wait");
    bench.settle();
  }
}

// Every waiter must wake, however close the end of the work is to the wait, however many threads
// wait, and also where a callback waits for the same event. A waiter that is forgotten comes back
// at its deadline and then reports success.
void waits_wake(const Context& context, bool of_event) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 25;
  Heard heard;  // outlives the streams whose work calls
  TableBench bench(context, 1);
  std::byte* const device = bench.memory(kBytes);
  keel_plugin_event* const event = bench.event();
  const WaitCall wait = wait_call(bench, of_event, event);
  const int64_t wait_ns = context.environment.wait_ns / 2;
  for (uint32_t round = 0; round < kRounds + 2; ++round) {
    if (round < kRounds) {
      bench.fill(0, device, round, 4 + (round % 5) * (kBytes / 8));
    } else {
      bench.occupy(0);
    }
    bench.record(event, 0);
    if (round == kRounds && bench.has(KEEL_CAPABILITY_NOTIFY)) {
      need(bench.table().event_notify(event, Heard::hear, &heard), "event_notify");
    }
    std::array<keel_status, kThreads> statuses = {};
    std::array<int64_t, kThreads> waited_ns = {};
    run_threads(kThreads, [&](uint32_t i) {
      const int64_t start = steady_now();
      statuses[i] = wait(wait_ns);
      waited_ns[i] = steady_now() - start;
    });
    Tally tally;
    for (const keel_status status : statuses) tally.add(status);
    const keel_status state = bench.query(event);
    need(tally.first(),
         fmt::format("a wait of {} ms, by one of {} threads, round {}; the event "
                     "itself then said {}",
                     wait_ns / kMillisecond, kThreads, round, keel_status_name(state)));
    const int64_t longest_ns = observe(*std::max_element(waited_ns.begin(), waited_ns.end()));
    check(longest_ns < wait_ns,
          fmt::format("one of {} threads, round {}: a wait of {} ms came back after {} ms, long "
                      "after the work",
                      kThreads, round, wait_ns / kMillisecond, longest_ns / kMillisecond));
  }
  bench.settle();
}

// Status queries of the stream itself.
void stream_query(const Context& context) {
  TableBench bench(context, 2);
  const keel_stream_table* const table = &bench.table();
  if (!observe(KEEL_HAS(keel_stream_table, table, query))) slot_absent("query");
  need(table->query(bench.stream(0)), "stream.query of an unused stream");
  for (uint32_t round = 0; round < 2; ++round) {
    keel_status state = KEEL_OK;
    bench.behind_work(0, [&] { state = observe_status(table->query(bench.stream(0))); });
    need_be(KEEL_NOT_READY, state, "stream.query of a stream with work that is not done");
    need(poll([&] { return table->query(bench.stream(0)); }, context.environment.wait_ns),
         "stream.query, polled");
    need(table->query(bench.stream(1)), "stream.query of an unused stream");
    bench.settle();
  }
}

// ---- notifications ------------------------------------------------------------------------

// Exactly one callback per request: for a completed event, a pending one, a re-recorded one, and
// for two requests on one event.
void notified_once(const Context& context) {
  std::deque<Heard> callbacks;  // outlives the streams whose work calls
  TableBench bench(context, 1);
  keel_plugin_event* const event = bench.event();
  const keel_stream_table& table = bench.table();
  const int64_t limit_ns = context.environment.wait_ns / 2;
  for (uint32_t round = 0; round < 3; ++round) {
    Heard* first = nullptr;
    Heard* second = nullptr;
    uint32_t early = 0;
    bench.behind_work(0, [&] {
      first = &callbacks.emplace_back();
      second = &callbacks.emplace_back();
      bench.record(event, 0);
      need(table.event_notify(event, Heard::hear, first), "event_notify");
      need(table.event_notify(event, Heard::hear, second), "event_notify, a second");
      early = observe(first->count.load() + second->count.load());
    });
    check(early == 0, "event_notify: a callback of an event that is not done");
    bench.settle();
    check(await_calls(*first, 1, limit_ns) == 1, "event_notify: not one callback");
    check(await_calls(*second, 1, limit_ns) == 1, "event_notify: not one callback of the second");
    need(first->status.load(), "the status of a callback");
    need(second->status.load(), "the status of the second callback");
    Heard& late = callbacks.emplace_back();
    need(table.event_notify(event, Heard::hear, &late), "event_notify of what is done");
    check(await_calls(late, 1, limit_ns) == 1,
          "event_notify of an event that is done: not one callback at once");
    need(late.status.load(), "the status of a callback of what was done");
    check(observe(first->count.load() + second->count.load()) == 2,
          "event_notify: a callback came again");
  }
  // The records of later rounds must not call what an earlier round requested.
  bench.record(event, 0);
  bench.settle();
  for (const Heard& each : callbacks) {
    check(observe(each.count.load()) == 1,
          "event_notify: a later record of the event called a callback again");
  }
}

// Many notifications at once, on several streams, requested by several threads; each event is
// destroyed right after its callback.
void many_notified(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kEach = 100;
  std::vector<Heard> heard(kThreads * kEach);  // outlives the streams whose work calls
  TableBench bench(context, kThreads);
  const keel_stream_table& table = bench.table();
  std::byte* const device = bench.memory(kThreads * 4096);
  std::vector<keel_plugin_event*> events(heard.size());
  Tally made;
  for (keel_plugin_event*& event : events) {
    made.add(table.event_create(bench.device(), /*flags=*/0, &event));
  }
  need(made.first(), fmt::format("{} events", events.size()));
  std::array<Tally, kThreads> tallies;
  run_threads(kThreads, [&](uint32_t thread) {
    Tally& tally = tallies[thread];
    for (uint32_t i = 0; i < kEach; ++i) {
      const uint32_t at = thread * kEach + i;
      tally.add(table.fill(bench.stream(thread), device + thread * 4096, &i, sizeof(i), 4096));
      tally.add(table.event_record(events[at], bench.stream(thread)));
      if (i % 3 == 0) continue;  // requested together below
      tally.add(table.event_notify(events[at], Heard::hear, &heard[at]));
    }
    for (uint32_t i = 0; i < kEach; i += 3) {
      const uint32_t at = thread * kEach + i;
      tally.add(table.event_notify(events[at], Heard::hear, &heard[at]));
    }
  });
  for (const Tally& tally : tallies) need(tally.first(), "work, events and event_notify");
  bench.settle();
  const auto count = [&] {
    uint32_t calls = 0;
    for (const Heard& each : heard) calls += each.count.load();
    return calls;
  };
  poll([&] { return count() >= heard.size() ? KEEL_OK : KEEL_NOT_READY; },
       context.environment.wait_ns / 2);
  uint32_t not_once = 0;
  Tally statuses;
  for (const Heard& each : heard) {
    if (each.count.load() != 1) ++not_once;
    if (!judging()) statuses.add(each.status.load());
  }
  not_once = observe(not_once);
  check(not_once == 0, fmt::format("event_notify: {} of {} events did not have one callback",
                                   not_once, heard.size()));
  need(statuses.first(), "the status of one of the callbacks");
  for (keel_plugin_event* const event : events) table.event_destroy(event);
  check(observe(count()) == heard.size(), "event_notify: a callback came again");
}

// One callback for each request, however close the request is to the completion of its event. A
// stream completes many events one after the other, while requests go through them from the last to
// the first: in each round one request meets the completion of its event.
void notified_at_completion(const Context& context) {
  constexpr uint32_t kEvents = 128;
  constexpr uint32_t kMostRounds = 4000;
  constexpr int64_t kMostNs = 100 * kMillisecond;
  constexpr uint64_t kSize = 512 << 10;
  std::vector<Heard> heard(kEvents);  // outlives the streams whose work calls
  TableBench bench(context, 1);
  const keel_stream_table& table = bench.table();
  std::byte* const device = bench.memory(kSize);
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < kEvents; ++i) events.push_back(bench.event());
  Tally tally;
  uint32_t rounds = 0;
  const auto not_called = [&] {
    return std::count_if(heard.begin(), heard.end(),
                         [&](const Heard& each) { return each.count.load() != rounds; });
  };
  run_threads(1, [&](uint32_t) {
    const auto all_called = [&] { return not_called() == 0 ? KEEL_OK : KEEL_NOT_READY; };
    const int64_t end = steady_now() + kMostNs;
    while (rounds < kMostRounds && steady_now() < end && tally.first() == KEEL_OK) {
      ++rounds;
      tally.add(table.fill(bench.stream(0), device, &rounds, sizeof(rounds), kSize));
      for (keel_plugin_event* const each : events) {
        tally.add(table.event_record(each, bench.stream(0)));
      }
      tally.add(bench.await(events.front()));
      for (uint32_t i = kEvents; i-- > 0;) {
        tally.add(table.event_notify(events[i], Heard::hear, &heard[i]));
      }
      tally.add(bench.await(events.back()));
      if (poll_unobserved(all_called, context.environment.wait_ns / 2) != KEEL_OK) break;
    }
  });
  need(tally.first(), "work, events and event_notify");
  const auto wrong = observe(static_cast<uint64_t>(not_called()));
  check(wrong == 0,
        fmt::format("event_notify beside the completion of events: {} of {} requests did not have "
                    "one callback",
                    wrong, kEvents));
  bench.settle();
}

// ---- many events --------------------------------------------------------------------------

void thousands(const Context& context) {
  constexpr uint32_t kEvents = 2000;
  constexpr uint32_t kStreams = 4;
  TableBench bench(context, kStreams);
  const keel_stream_table& table = bench.table();
  std::vector<keel_plugin_event*> events(kEvents);
  Tally made;
  Tally done;
  for (keel_plugin_event*& event : events) {
    made.add(table.event_create(bench.device(), /*flags=*/0, &event));
  }
  need(made.first(), fmt::format("{} events", kEvents));
  for (uint32_t i = 0; i < kEvents; ++i) {
    made.add(table.event_record(events[i], bench.stream(i % kStreams)));
  }
  need(made.first(), "stream.event_record");
  bench.settle();
  for (keel_plugin_event* const event : events) done.add(table.event_query(event));
  for (keel_plugin_event* const event : events) table.event_destroy(event);
  need(done.first(), fmt::format("one of {} events on streams whose work is done", kEvents));
}

// Destroys an event as soon as it has completed, while the completing thread may still be using it.
void short_lived(const Context& context) {
  TableBench bench(context, 2);
  const keel_stream_table& table = bench.table();
  std::byte* const device = bench.memory(4096);
  Tally tally;
  for (uint32_t i = 0; i < 300 && tally.first() == KEEL_OK; ++i) {
    keel_plugin_event* event = nullptr;
    tally.add(table.event_create(bench.device(), /*flags=*/0, &event));
    if (tally.first() != KEEL_OK) break;
    tally.add(table.fill(bench.stream(i % 2), device, &i, sizeof(i), 4096));
    tally.add(table.event_record(event, bench.stream(i % 2)));
    const keel_status done = bench.await(event);
    tally.add(done);
    if (done != KEEL_NOT_READY) table.event_destroy(event);
  }
  need(tally.first(), "events made, recorded, done and destroyed");
  bench.settle();
}

}  // namespace

void add_event_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {std::string("async/tables/") + id,
         capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
         /*full=*/false, std::move(body)});
  };
  add("event/query_stays", query_stays);
  add("event/not_early/query", [](const Context& c) { not_early(c, Await::kQuery); });
  add("event/not_early/wait", [](const Context& c) { not_early(c, Await::kWait); });
  add(
      "event/not_early/notify", [](const Context& c) { not_early(c, Await::kNotify); },
      KEEL_CAPABILITY_NOTIFY);
  add("stream/not_early/query", [](const Context& c) { not_early(c, Await::kStreamQuery); });
  add("stream/not_early/synchronize", [](const Context& c) { not_early(c, Await::kSynchronize); });
  add("event/wait/times_out", [](const Context& c) { wait_times_out(c, true); });
  add("event/wait/lasts", [](const Context& c) { wait_lasts(c, true); });
  add("event/wait/wakes", [](const Context& c) { waits_wake(c, true); });
  add("stream/synchronize/times_out", [](const Context& c) { wait_times_out(c, false); });
  add("stream/synchronize/lasts", [](const Context& c) { wait_lasts(c, false); });
  add("stream/synchronize/wakes", [](const Context& c) { waits_wake(c, false); });
  add("stream/query", stream_query);
  add("event/notify/once", notified_once, KEEL_CAPABILITY_NOTIFY);
  add("event/notify/many", many_notified, KEEL_CAPABILITY_NOTIFY);
  add("event/notify/at_completion", notified_at_completion, KEEL_CAPABILITY_NOTIFY);
  add("event/thousands", thousands);
  add("event/short_lived", short_lived);
}

}  // namespace keel::conformance
