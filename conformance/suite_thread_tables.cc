// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: slots that several threads call at once, and creation
// and destruction of streams.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "conformance/harness.h"
#include "conformance/table_bench.h"

namespace keel::conformance {

namespace {

constexpr uint32_t kWord = 0x5eed0001;

// Each thread enqueues on its own stream and checks its result in every round.
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

// Other threads query a stream and its events while one thread enqueues. A completed event must
// stay completed, and the last event must complete in the end.
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
      // All events recorded earlier must be complete too.
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

// Several threads create and destroy streams and events at once.
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

// Streams are created, used and destroyed repeatedly, with priorities clamped to the supported
// range.
void recreated(const Context& context) {
  constexpr uint32_t kRounds = 100;
  TableBench bench(context, 1);
  std::byte* const device = bench.memory(4096);
  std::byte* const result = bench.memory(4096, KEEL_MEMORY_PINNED);
  Tally statuses;
  uint32_t wrong = 0;
  const uint64_t size = 4096;
  const std::vector<std::byte> pattern = words(kWord, size);
  for (uint32_t round = 0; round < kRounds && statuses.first() == KEEL_OK; ++round) {
    // Priorities are clamped to the supported range.
    constexpr int32_t kPriorities[] = {0, -1, 1, INT32_MIN, INT32_MAX};
    keel_plugin_stream* stream = nullptr;
    keel_plugin_event* event = nullptr;
    statuses.add(bench.table().create(bench.device(), kPriorities[round % 5], &stream));
    statuses.add(bench.table().event_create(bench.device(), /*flags=*/0, &event));
    if (statuses.first() != KEEL_OK) break;
    const uint32_t word = kWord + round;
    statuses.add(bench.table().fill(stream, device, &word, sizeof(word), size));
    statuses.add(bench.table().copy(stream, KEEL_COPY_DEVICE_TO_HOST, result, device, size));
    statuses.add(bench.table().event_record(event, stream));
    const keel_status done = bench.await(event);
    statuses.add(done);
    if (!judging() && std::memcmp(result, words(word, size).data(), size) != 0) ++wrong;
    if (done == KEEL_NOT_READY) break;
    bench.table().event_destroy(event);
    bench.table().destroy(stream);
  }
  need(statuses.first(), "a stream made, used and destroyed, and again");
  wrong = observe(wrong);
  check(wrong == 0, fmt::format("{} of {} streams left wrong bytes", wrong, kRounds));
}

}  // namespace

void add_thread_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {std::string("async/tables/") + id,
         capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
         /*full=*/false, std::move(body)});
  };
  add("threads/enqueue", threads_enqueue);
  add("threads/ask", threads_ask);
  add("threads/create", threads_create);
  add("streams/recreated", recreated);
}

}  // namespace keel::conformance
