// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: event times, compared with the host's clock and with
// each other.
#include <fmt/format.h>

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

// Fills that take at least 20 ms of the host's clock on one of |bench|'s streams.
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

// Two events whose records and ends lie within |wall| ns of the host's clock are no further apart,
// up to the difference of two clocks.
uint64_t at_most(uint64_t wall) {
  return wall + wall / 32 + 50'000;
}

// Long work must take the same time in nanoseconds by the device's clock and by the host's: no
// more, and no less than a tenth. The host's interval is longer, especially on a busy host, so the
// case retries.
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
    if (device >= wall / 10 && device <= at_most(wall)) return;
    seen += fmt::format("{}{} of {}", seen.empty() ? "" : ", ", device, wall);
  }
  fail_case("work took so many ns by event_elapsed, of so many by the host's clock: " + seen);
}

// Time must also advance while a stream is idle, as fast as the host's clock does: work that may
// begin late hides a factor, and a pause does not.
void idle_time(const Context& context) {
  constexpr int64_t kIdle = 30 * kMillisecond;
  TableBench bench(context, 1);
  keel_plugin_event* const start = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event(KEEL_EVENT_TIMING);
  const int64_t first = observe_now();
  bench.record(start, 0);
  need(bench.poll(start), "event_query");
  const int64_t before = observe_now();
  pause_ns(kIdle);
  const auto wall = static_cast<uint64_t>(observe_now() - before);
  bench.record(end, 0);
  need(bench.poll(end), "event_query");
  const auto longest = static_cast<uint64_t>(observe_now() - first);
  bench.settle();
  const uint64_t device = elapsed(bench, start, end);
  check(device >= wall - wall / 32,
        fmt::format("{} ns between two events of an idle stream, {} ns on the "
                    "host's clock between the first's end and the second's record",
                    device, wall));
  check(device <= at_most(longest),
        fmt::format("{} ns between two events of an idle stream, {} ns on the host's clock from "
                    "before the first's record to after the second's end",
                    device, longest));
}

// The time of an event is that of its end, not of the call that records it: the second one is
// recorded behind held work, and ends when that is let go.
void held_time(const Context& context) {
  constexpr int64_t kHeld = 30 * kMillisecond;
  TableBench bench(context, 1);
  if (!bench.can_hold()) unsupported("no native gate and no test table to hold a stream with");
  keel_plugin_event* const start = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event(KEEL_EVENT_TIMING);
  const int64_t first = observe_now();
  bench.record(start, 0);
  need(bench.poll(start), "event_query");
  uint64_t held = 0;
  bench.behind_work(0, [&] {
    bench.record(end, 0);
    const int64_t before = observe_now();
    pause_ns(kHeld);
    held = static_cast<uint64_t>(observe_now() - before);
  });
  need(bench.poll(end), "event_query");
  const auto longest = static_cast<uint64_t>(observe_now() - first);
  bench.settle();
  const uint64_t device = elapsed(bench, start, end);
  check(device >= held - held / 32 && device <= at_most(longest),
        fmt::format("{} ns to an event behind work that was held for {} ns, of {} ns on the host's "
                    "clock in all",
                    device, held, longest));
}

// The times of consecutive spans must add up to the time of the whole, within 1 % of the whole plus
// 2 us per span.
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

// A later record must have a later time: |again| is recorded after long work has ended.
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

// From one stream to another that waited for it.
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
    if (whole >= first - first / 100 && whole <= at_most(wall)) return;
    seen += fmt::format("{}{} and {}, of {}", seen.empty() ? "" : ", ", first, whole, wall);
  }
  fail_case(
      "ns to an event, and to one on another stream that waited for it, of so many by the host's "
      "clock: " +
      seen);
}

// Another stream waits for an event with a time, which a plugin may keep back for the next
// submission. The event was recorded, and done, once before: a plugin that takes the wait for one
// of then goes on too early.
void waited_for(const Context& context) {
  constexpr uint64_t kBytes = 64 << 10;
  constexpr uint32_t kStale = 0xbadbadba;
  uint32_t word = 0x5eed0000;  // another for each attempt
  TableBench bench(context, 2);
  std::byte* const source = bench.memory(kBytes);
  std::byte* const copy = bench.memory(kBytes);
  keel_plugin_event* const event = bench.event(KEEL_EVENT_TIMING);
  keel_plugin_event* const end = bench.event();
  bench.fill(0, source, kStale, kBytes);
  bench.record(event, 0);
  bench.settle();
  bench.behind_work(0, [&] {
    bench.fill(0, source, ++word, kBytes);
    bench.record(event, 0);
    bench.wait_event(1, event);
    bench.copy(1, KEEL_COPY_DEVICE_TO_DEVICE, copy, source, kBytes);
    bench.record(end, 1);  // the copy is submitted before anything else asks for |event|
  });
  bench.settle();
  bench.check_memory(1, copy, word, kBytes, "a copy behind a wait for an event with a time");
}

}  // namespace

void add_time_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {std::string("async/tables/") + id,
         capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
         /*full=*/false, std::move(body)});
  };
  add("time/against_the_wall", against_the_wall, KEEL_CAPABILITY_TIMING);
  add("time/idle", idle_time, KEEL_CAPABILITY_TIMING);
  add("time/held", held_time, KEEL_CAPABILITY_TIMING);
  add("time/spans_add_up", spans_add_up, KEEL_CAPABILITY_TIMING);
  add("time/recorded_again", recorded_again, KEEL_CAPABILITY_TIMING);
  add("time/of_two_streams", of_two_streams, KEEL_CAPABILITY_TIMING);
  add("time/waited_for", waited_for, KEEL_CAPABILITY_TIMING);
}

}  // namespace keel::conformance
