// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: the times of events, against the host's clock and
// against each other; and slots that several threads call at once.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <thread>

#include "conformance/harness.h"
#include "conformance/table_bench.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 16 << 20;
constexpr int64_t kMillisecond = 1'000'000;
constexpr uint32_t kAttempts = 6;

uint64_t elapsed(const TableBench& bench, keel_plugin_event* start, keel_plugin_event* end,
                 Where where = Where::current()) {
  uint64_t nanoseconds = UINT64_MAX;
  need(bench.table().event_elapsed(start, end, &nanoseconds), "event_elapsed", where);
  return observe(nanoseconds, where);
}

// Fills enqueued on a stream of |bench|'s that take 20 ms or more of the host's clock.
class LongWork {
 public:
  LongWork(TableBench& bench, uint32_t index)
      : bench_(bench), index_(index), device_(bench.memory(kBytes)), end_(bench.event()) {
    while (run() < 20 * kMillisecond && rounds_ < 4096) rounds_ *= 2;
  }
  void enqueue(Where where = Where::current()) const {
    Tally tally;
    for (uint32_t i = 0; i < rounds_; ++i) {
      tally.add(bench_.table().fill(bench_.stream(index_), device_, &i, sizeof(i), kBytes));
    }
    need(tally.first(), "stream.fill", where);
  }

 private:
  int64_t run() const {
    const int64_t start = observe_now();
    enqueue();
    bench_.record(end_, index_);
    need(bench_.poll(end_), "event_query");
    return observe_now() - start;
  }

  TableBench& bench_;
  const uint32_t index_;
  std::byte* const device_;
  keel_plugin_event* const end_;
  uint32_t rounds_ = 4;
};

// Long work takes as long by the device's clock as by the host's, in nanoseconds: within ten times.
// The host's span is the longer one, and more so where the host is busy: then it is tried again.
void against_the_wall(const Context& context) {
  TableBench bench(context, 1);
  const LongWork work(bench, 0);
  keel_plugin_event* const start = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event(KEEL_EVENT_TIMING);
  std::string seen;
  for (uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const int64_t before = observe_now();
    bench.record(start, 0);
    work.enqueue();
    bench.record(end, 0);
    need(bench.poll(end), "event_query");
    const auto wall = static_cast<uint64_t>(observe_now() - before);
    bench.settle();
    const uint64_t device = elapsed(bench, start, end);
    check(elapsed(bench, start, start) == 0, "from an event to itself time passes");
    check(elapsed(bench, end, end) == 0, "from an event to itself time passes");
    if (device >= wall / 10 && device <= 10 * wall) return;
    seen += fmt::format("{}{} of {}", seen.empty() ? "" : ", ", device, wall);
  }
  fail_case("work took so many ns by event_elapsed, of so many by the host's clock: " + seen);
}

// Time passes while a stream is idle, too.
void idle_time(const Context& context) {
  constexpr int64_t kIdle = 30 * kMillisecond;
  TableBench bench(context, 1);
  keel_plugin_event* const start = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event(KEEL_EVENT_TIMING);
  bench.record(start, 0);
  need(bench.poll(start), "event_query");
  const int64_t before = observe_now();
  pause_ns(kIdle);
  const auto wall = static_cast<uint64_t>(observe_now() - before);
  bench.record(end, 0);
  need(bench.poll(end), "event_query");
  bench.settle();
  const uint64_t device = elapsed(bench, start, end);
  check(device >= wall / 2,
        fmt::format("{} ns between two events of an idle stream, {} ns on the "
                    "host's clock between the first's end and the second's record",
                    device, wall));
}

// The times of spans in a row add up to that of the whole, but for 1 % and 2 us each.
void spans_add_up(const Context& context) {
  constexpr uint32_t kSpans = 8;
  TableBench bench(context, 1);
  std::byte* const device = bench.memory(kBytes);
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i <= kSpans; ++i) events.push_back(bench.event(KEEL_EVENT_TIMING));
  for (uint32_t i = 0; i <= kSpans; ++i) {
    if (i != 0) bench.fill(0, device, i, kBytes / kSpans * i);
    bench.record(events[i], 0);
  }
  bench.settle();
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kSpans; ++i) sum += elapsed(bench, events[i], events[i + 1]);
  const uint64_t whole = elapsed(bench, events[0], events[kSpans]);
  check(whole > 0, "eight fills took no time");
  const uint64_t allowed = whole / 100 + kSpans * 2000;
  check(sum <= whole + allowed && whole <= sum + allowed,
        fmt::format("{} spans in a row took {} ns, the whole of them {} ns", kSpans, sum, whole));
}

// A later record has a later time: |again| starts where long work has ended.
void recorded_again(const Context& context) {
  TableBench bench(context, 1);
  const LongWork work(bench, 0);
  keel_plugin_event* const first = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const again = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event(KEEL_EVENT_TIMING);
  std::string seen;
  for (uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    bench.record(first, 0);
    bench.record(again, 0);
    bench.settle();
    work.enqueue();
    bench.record(again, 0);
    bench.record(end, 0);
    bench.settle();
    const uint64_t before = elapsed(bench, first, again);
    const uint64_t behind = elapsed(bench, again, end);
    if (before > behind) return;
    seen += fmt::format("{}{} and {}", seen.empty() ? "" : ", ", before, behind);
  }
  fail_case("of an event recorded again behind long work: ns before it and behind it, " + seen);
}

// From a stream to another that waited for it.
void of_two_streams(const Context& context) {
  TableBench bench(context, 2);
  const LongWork work(bench, 0);
  keel_plugin_event* const start = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const middle = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event(KEEL_EVENT_TIMING);
  std::string seen;
  for (uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const int64_t before = observe_now();
    bench.record(start, 0);
    work.enqueue();
    bench.record(middle, 0);
    bench.wait_event(1, middle);
    bench.record(end, 1);
    need(bench.poll(end), "event_query");
    const auto wall = static_cast<uint64_t>(observe_now() - before);
    bench.settle();
    const uint64_t first = elapsed(bench, start, middle);
    const uint64_t whole = elapsed(bench, start, end);
    if (whole >= first - first / 100 && whole <= 10 * wall) return;
    seen += fmt::format("{}{} and {}, of {}", seen.empty() ? "" : ", ", first, whole, wall);
  }
  fail_case(
      "ns to an event, and to one on another stream that waited for it, of so many by the host's "
      "clock: " +
      seen);
}

// ---- threads --------------------------------------------------------------------------------

// Each thread enqueues on a stream of its own, and looks at its result each time.
void threads_enqueue(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 100;
  constexpr uint64_t kSize = 16384;
  TableBench bench(context, kThreads);
  const keel_stream_table& table = bench.table();
  std::vector<std::byte*> device;
  std::vector<std::byte*> pinned;
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < kThreads; ++i) {
    device.push_back(bench.memory(2 * kSize));
    pinned.push_back(bench.memory(kSize, KEEL_MEMORY_PINNED));
    events.push_back(bench.event());
  }
  std::array<Tally, kThreads> tallies;
  std::array<uint32_t, kThreads> wrong = {};
  run_threads(kThreads, [&](uint32_t t) {
    keel_plugin_stream* const stream = bench.stream(t);
    for (uint32_t round = 0; round < kRounds && tallies[t].first() == KEEL_OK; ++round) {
      const uint32_t word = t << 24 | round;
      tallies[t].add(table.fill(stream, device[t], &word, sizeof(word), kSize));
      tallies[t].add(
          table.copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, device[t] + kSize, device[t], kSize));
      tallies[t].add(
          table.copy(stream, KEEL_COPY_DEVICE_TO_HOST, pinned[t], device[t] + kSize, kSize));
      tallies[t].add(table.event_record(events[t], stream));
      const keel_status done = bench.await(events[t]);
      tallies[t].add(done);
      const auto* const got = reinterpret_cast<const uint32_t*>(pinned[t]);
      for (uint64_t i = 0; i < kSize / sizeof(word); ++i) wrong[t] += got[i] != word;
    }
  });
  for (uint32_t t = 0; t < kThreads; ++t) {
    need(tallies[t].first(), fmt::format("work of thread {} on a stream of its own", t));
    wrong[t] = observe(wrong[t]);
    check(wrong[t] == 0, fmt::format("thread {}: {} words are wrong", t, wrong[t]));
  }
}

// Others ask for a stream and its events while a thread enqueues on it. Once an event was seen done
// it stays done, and the last is done in the end.
void threads_ask(const Context& context) {
  constexpr uint32_t kEvents = 600;
  constexpr uint32_t kAskers = 3;
  TableBench bench(context, 1);
  const keel_stream_table* const table = &bench.table();
  const bool has_wait = observe(KEEL_HAS(keel_stream_table, table, event_wait));
  const bool has_query = observe(KEEL_HAS(keel_stream_table, table, query));
  const bool has_synchronize = observe(KEEL_HAS(keel_stream_table, table, synchronize));
  std::byte* const device = bench.memory(65536);
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < kEvents; ++i) events.push_back(bench.event());
  std::atomic<uint32_t> recorded{0};
  std::array<Tally, kAskers + 1> tallies;
  std::array<uint32_t, kAskers + 1> undone = {};
  const int64_t wait_ns = context.environment.wait_ns;
  run_threads(kAskers + 1, [&](uint32_t thread) {
    Tally& tally = tallies[thread];
    if (thread == 0) {
      for (uint32_t i = 0; i < kEvents; ++i) {
        tally.add(table->fill(bench.stream(0), device, &i, sizeof(i), 65536));
        tally.add(table->event_record(events[i], bench.stream(0)));
        recorded.store(i + 1);
      }
      return;
    }
    const auto may_wait = [&](keel_status status) {
      if (status != KEEL_NOT_READY && status != KEEL_TIMED_OUT) tally.add(status);
      return status;
    };
    const int64_t end = steady_now() + wait_ns;
    for (uint32_t done = 0; done < kEvents && steady_now() < end;) {
      const uint32_t count = recorded.load();
      if (done >= count) {
        std::this_thread::yield();
        continue;
      }
      keel_plugin_event* const event = events[count - 1];
      if (has_query) may_wait(table->query(bench.stream(0)));
      if (has_synchronize && thread == 2) may_wait(table->synchronize(bench.stream(0), 20'000));
      if (may_wait(has_wait && thread == 1 ? table->event_wait(event, 100'000)
                                           : table->event_query(event)) != KEEL_OK) {
        if (tally.first() != KEEL_OK) return;
        continue;
      }
      // What was recorded before is done as well.
      for (; done < count; ++done) undone[thread] += table->event_query(events[done]) != KEEL_OK;
    }
  });
  for (const Tally& tally : tallies) need(tally.first(), "calls beside a thread that enqueues");
  for (uint32_t& count : undone) {
    count = observe(count);
    check(count == 0,
          fmt::format("{} events are not done, but one recorded behind them is", count));
  }
  bench.settle();
  Tally all;
  for (keel_plugin_event* const event : events) all.add(table->event_query(event));
  need(all.first(), "one of the events, in the end");
}

// Streams and events made and destroyed by several threads at once.
void threads_create(const Context& context) {
  constexpr uint32_t kThreads = 4;
  TableBench bench(context, 1);
  const keel_stream_table& table = bench.table();
  std::array<Tally, kThreads> tallies;
  std::byte* const device = bench.memory(kThreads * 4096);
  run_threads(kThreads, [&](uint32_t t) {
    Tally& tally = tallies[t];
    for (uint32_t i = 0; i < 20 && tally.first() == KEEL_OK; ++i) {
      keel_plugin_stream* stream = nullptr;
      keel_plugin_event* event = nullptr;
      tally.add(table.create(bench.device(), /*priority=*/0, &stream));
      tally.add(table.event_create(bench.device(), /*flags=*/0, &event));
      if (tally.first() != KEEL_OK) return;
      tally.add(table.fill(stream, device + t * 4096, &i, sizeof(i), 4096));
      tally.add(table.event_record(event, stream));
      const keel_status done = bench.await(event);
      tally.add(done);
      if (done == KEEL_NOT_READY) return;
      table.event_destroy(event);
      table.destroy(stream);
    }
  });
  for (const Tally& tally : tallies) need(tally.first(), "streams and events of several threads");
}

}  // namespace

void add_time_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t claims = 0) {
    cases->push_back({std::string("async/tables/") + id,
                      claims | KEEL_CLAIM_ASYNC | KEEL_CLAIM_PINNED | KEEL_CLAIM_FILL,
                      /*full=*/false, std::move(body)});
  };
  add("time/against_the_wall", against_the_wall, KEEL_CLAIM_TIMING);
  add("time/idle", idle_time, KEEL_CLAIM_TIMING);
  add("time/spans_add_up", spans_add_up, KEEL_CLAIM_TIMING);
  add("time/recorded_again", recorded_again, KEEL_CLAIM_TIMING);
  add("time/of_two_streams", of_two_streams, KEEL_CLAIM_TIMING);
  add("threads/enqueue", threads_enqueue);
  add("threads/ask", threads_ask);
  add("threads/create", threads_create);
}

}  // namespace keel::conformance
