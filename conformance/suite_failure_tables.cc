// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: work that fails on the device. On most chips a case
// cannot cause a failure without harming the machine, so the plugin's test table injects failures.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>

#include "conformance/harness.h"
#include "conformance/table_bench.h"
#include "conformance/table_failures.h"
#include "conformance/table_kernel.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 64 << 10;
constexpr uint32_t kWord = 0x5eed0001;
constexpr uint32_t kStale = 0xbadbadba;

// A failure in stream order: earlier work completes; later work does not run and every query of it
// returns the failure; other streams continue.
void sticks(const Context& context) {
  TableBench bench(context, 2);
  const keel_test_table& tests = bench.failing();
  const keel_stream_table* const table = &bench.table();
  const bool has_wait = observe(KEEL_HAS(keel_stream_table, table, event_wait));
  const bool has_query = observe(KEEL_HAS(keel_stream_table, table, query));
  const bool has_synchronize = observe(KEEL_HAS(keel_stream_table, table, synchronize));
  const int64_t wait_ns = context.environment.wait_ns;
  std::byte* const device = bench.memory(3 * kBytes);
  std::byte* const pinned = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  bench.fill(0, device, kStale, 3 * kBytes);
  std::vector<std::byte> stale(kBytes, std::byte{0xba});
  write_host(pinned, stale);
  keel_plugin_event* const before = bench.event();
  keel_plugin_event* const behind = bench.event();
  keel_plugin_event* const further = bench.event();
  bench.settle();
  keel_status early = KEEL_OK;
  bench.behind_work(0, [&] {
    bench.fill(0, device, kWord, kBytes);
    bench.record(before, 0);
    need(tests.fail_work(bench.stream(0), KEEL_UNAVAILABLE), "fail_work");
    bench.fill(0, device + kBytes, kWord, kBytes);
    bench.record(behind, 0);
    bench.copy(0, KEEL_COPY_DEVICE_TO_DEVICE, device + 2 * kBytes, device, kBytes);
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, pinned, device, kBytes);
    bench.record(further, 0);
    early = bench.query(behind);
  });
  need_be(KEEL_NOT_READY, early, "event_query behind work that will fail, before its turn");
  need_be(KEEL_UNAVAILABLE, bench.poll(behind), "event_query behind work that failed");
  need_be(KEEL_UNAVAILABLE, bench.poll(further), "event_query further behind it");
  for (uint32_t again = 0; again < 3; ++again) {
    need(bench.query(before), "event_query of an event before work that failed");
    need_be(KEEL_UNAVAILABLE, bench.query(behind), "event_query behind work that failed, again");
    need_be(KEEL_UNAVAILABLE, bench.query(further), "event_query further behind, again");
    if (has_wait) {
      need(table->event_wait(before, wait_ns), "event_wait for an event before work that failed");
      need_be(KEEL_UNAVAILABLE, table->event_wait(behind, wait_ns), "event_wait behind it");
      need_be(KEEL_UNAVAILABLE, table->event_wait(further, 0), "event_wait further behind");
    }
    if (has_query) {
      need_be(KEEL_UNAVAILABLE, table->query(bench.stream(0)), "stream.query of one that failed");
    }
    if (has_synchronize) {
      need_be(KEEL_UNAVAILABLE, table->synchronize(bench.stream(0), wait_ns),
              "stream.synchronize of one that failed");
      need_be(KEEL_UNAVAILABLE, table->synchronize(bench.stream(0), 0),
              "stream.synchronize of one that failed, with no time");
    }
    // Work enqueued after the failure is known may be accepted or refused, but must not run.
    // Plugins may run brief work in another place than long work.
    const uint32_t word = kWord;
    for (const uint64_t size : {kBytes, uint64_t{4}}) {
      (void)observe_status(table->fill(bench.stream(0), device + kBytes, &word, 4, size));
    }
    (void)observe_status(
        table->copy(bench.stream(0), KEEL_COPY_DEVICE_TO_DEVICE, device + 2 * kBytes, device, 4));
    const keel_status recorded = observe_status(table->event_record(further, bench.stream(0)));
    if (recorded == KEEL_OK) {
      need_be(KEEL_UNAVAILABLE, bench.poll(further),
              "event_query of an event recorded after a failure");
    } else {
      need_be(KEEL_UNAVAILABLE, recorded, "event_record on a stream that failed");
    }
  }
  bench.check_memory(1, device, kWord, kBytes, "what was enqueued before the failure");
  bench.check_memory(1, device + kBytes, kStale, 2 * kBytes,
                     "what was enqueued behind the failure");
  compare(read_host(pinned, kBytes), stale, "a download that was enqueued behind the failure");
}

// Each failure must be reported with its own status; a stream keeps its first failure.
void statuses(const Context& context) {
  constexpr std::array<keel_status, 4> kFailures = {KEEL_INTERNAL, KEEL_OUT_OF_RANGE,
                                                    KEEL_UNAVAILABLE, KEEL_INVALID_ARGUMENT};
  TableBench bench(context, kFailures.size());
  const keel_test_table& tests = bench.failing();
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < kFailures.size(); ++i) {
    events.push_back(bench.event());
    need(tests.fail_work(bench.stream(i), kFailures[i]), "fail_work");
    // May be refused, because the failure may already be known.
    (void)observe_status(tests.fail_work(bench.stream(i), KEEL_CANCELLED));
  }
  for (uint32_t i = 0; i < kFailures.size(); ++i) {
    const keel_status recorded =
        observe_status(bench.table().event_record(events[i], bench.stream(i)));
    need_be(
        kFailures[i], recorded == KEEL_OK ? bench.poll(events[i]) : recorded,
        fmt::format("an event behind work that failed with {}", keel_status_name(kFailures[i])));
  }
}

// Exactly one callback per event before and behind the failure, requested before and after it.
void notified(const Context& context) {
  std::deque<Heard> heard(4);  // outlives the streams whose work calls
  TableBench bench(context, 1);
  const keel_test_table& tests = bench.failing();
  const keel_stream_table& table = bench.table();
  keel_plugin_event* const before = bench.event();
  keel_plugin_event* const behind = bench.event();
  bench.behind_work(0, [&] {
    bench.record(before, 0);
    need(tests.fail_work(bench.stream(0), KEEL_UNAVAILABLE), "fail_work");
    bench.record(behind, 0);
    need(table.event_notify(before, Heard::hear, &heard[0]), "event_notify");
    need(table.event_notify(behind, Heard::hear, &heard[1]), "event_notify");
  });
  need_be(KEEL_UNAVAILABLE, bench.poll(behind), "event_query behind work that failed");
  need(table.event_notify(before, Heard::hear, &heard[2]), "event_notify");
  need(table.event_notify(behind, Heard::hear, &heard[3]), "event_notify");
  for (uint32_t i = 0; i < heard.size(); ++i) {
    const std::string what =
        fmt::format("event_notify {} the failure, asked for {} it",
                    i % 2 == 0 ? "before" : "behind", i < 2 ? "before" : "after");
    check(await_calls(heard[i], 1, context.environment.wait_ns / 2) == 1,
          what + ": not one callback");
    need_be(i % 2 == 0 ? KEEL_OK : KEEL_UNAVAILABLE, heard[i].status.load(), what);
  }
}

// The awaited event is still pending when the follower begins to wait for it, and fails later. The
// follower may go on or fail, but must end, not before the event, and a failure of it sticks.
void follower(const Context& context) {
  Heard heard;  // outlives the streams whose work calls
  TableBench bench(context, 3);
  const keel_test_table& tests = bench.failing();
  const keel_stream_table* const table = &bench.table();
  const bool has_wait = observe(KEEL_HAS(keel_stream_table, table, event_wait));
  const bool has_query = observe(KEEL_HAS(keel_stream_table, table, query));
  const bool has_notify = bench.has(KEEL_CAPABILITY_NOTIFY);
  const int64_t wait_ns = context.environment.wait_ns;
  std::byte* const device = bench.memory(kBytes);
  keel_plugin_event* const awaited = bench.event();
  keel_plugin_event* const after = bench.event();
  keel_plugin_event* const further = bench.event();
  bench.fill(1, device, kStale, kBytes);
  bench.settle();
  keel_status early = KEEL_OK;
  bench.behind_work(0, [&] {
    need(tests.fail_work(bench.stream(0), KEEL_UNAVAILABLE), "fail_work");
    bench.record(awaited, 0);
    bench.wait_event(1, awaited);
    bench.fill(1, device, kWord, kBytes);
    bench.record(after, 1);
    if (has_notify) need(table->event_notify(after, Heard::hear, &heard), "event_notify");
    early = bench.query(after);
  });
  need_be(KEEL_NOT_READY, early, "event_query of the follower before the awaited event has failed");
  need_be(KEEL_UNAVAILABLE, bench.poll(awaited), "event_query behind work that failed");
  const keel_status end = bench.poll(after);
  check(end != KEEL_NOT_READY, "a stream that waits for an event that fails does not end");
  check(end == KEEL_OK || end == KEEL_UNAVAILABLE || end == KEEL_INTERNAL,
        fmt::format("a stream that waits for an event that fails with KEEL_UNAVAILABLE fails with "
                    "{}: neither that status nor KEEL_INTERNAL",
                    keel_status_name(end)));
  for (uint32_t again = 0; again < 2; ++again) {
    need_be(end, bench.query(after), "event_query of the follower, again");
    if (has_wait) need_be(end, table->event_wait(after, wait_ns), "event_wait of the follower");
    const keel_status recorded = observe_status(table->event_record(further, bench.stream(1)));
    need_be(end, recorded == KEEL_OK ? bench.poll(further) : recorded,
            "a later event of the follower");
    if (has_query) {
      need_be(end, poll([&] { return table->query(bench.stream(1)); }, wait_ns),
              "stream.query of the follower");
    }
  }
  if (has_notify) {
    check(await_calls(heard, 1, wait_ns / 2) == 1,
          "event_notify of the follower: not one callback");
    need_be(end, heard.status.load(), "event_notify of the follower");
  }
  bench.check_memory(2, device, end == KEEL_OK ? kWord : kStale, kBytes, "the follower's memory");
}

// A stream that waits for a failed stream must finish; events recorded again on a working stream
// must complete; a new stream in place of the failed one must work.
void goes_on(const Context& context) {
  TableBench bench(context, 2);
  const keel_test_table& tests = bench.failing();
  const keel_stream_table& table = bench.table();
  std::byte* const device = bench.memory(kBytes);
  keel_plugin_event* const failed = bench.event();
  keel_plugin_event* const after = bench.event();
  for (uint32_t round = 0; round < 8; ++round) {
    keel_plugin_stream* stream = nullptr;
    keel_plugin_stream* follower = nullptr;
    need(table.create(bench.device(), /*priority=*/0, &stream), "stream.create");
    need(table.create(bench.device(), /*priority=*/0, &follower), "stream.create");
    need(tests.fail_work(stream, KEEL_UNAVAILABLE), "fail_work");
    const keel_status recorded = observe_status(table.event_record(failed, stream));
    if (recorded == KEEL_OK) {
      // The follower may either continue or fail.
      need(table.stream_wait_event(follower, failed), "stream_wait_event for an event that failed");
      if (observe_status(table.event_record(after, follower)) == KEEL_OK) {
        const keel_status state = bench.poll(after);
        check(state != KEEL_NOT_READY, "a stream that waits for one that failed does not end");
      }
      need_be(KEEL_UNAVAILABLE, bench.poll(failed), "event_query behind work that failed");
    } else {
      need_be(KEEL_UNAVAILABLE, recorded, "event_record on a stream that failed");
    }
    for (keel_plugin_event* const event : {failed, after}) {
      bench.record(event, round % 2);
      need(bench.poll(event), "event_query of an event that had failed, recorded again");
    }
    table.destroy(follower);
    table.destroy(stream);
    bench.fill(round % 2, device, kWord + round, kBytes);
    bench.check_memory(round % 2, device, kWord + round, kBytes, "beside a stream that failed");
  }
}

// Work in flight when the device is lost must end, and another instance's device must continue.
void device_lost(const Context& context) {
  TableBench bench(context, 2);
  const keel_test_table* const tests = &bench.failing();
  if (!observe(KEEL_HAS(keel_test_table, tests, lose_device))) {
    unsupported("the test table cannot lose a device");
  }
  std::byte* const device = bench.memory(kBytes);
  std::byte* const pinned = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  keel_plugin_event* const event = bench.event();
  keel_plugin_event* const idle = bench.event();
  bench.record(idle, 0);
  bench.settle();
  bench.occupy(0);
  bench.fill(0, device, kWord, kBytes);
  bench.record(event, 0);
  need(tests->lose_device(bench.device()), "lose_device");
  need_be(KEEL_DEVICE_LOST, bench.poll(event), "event_query of a lost device");
  check_lost(bench, event, idle, device, pinned);
  const TableBuffer buffer(context, kBytes);
  const TableStream stream(context);
  const std::vector<std::byte> sent = random_bytes(context, 0, kBytes);
  std::vector<std::byte> got(kBytes);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, buffer.at(0), sent.data(), kBytes);
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), buffer.at(0), kBytes);
  check_equal(got, sent, "the device of another instance");
}

// ---- real failures --------------------------------------------------------------------------

// On chips that check the addresses of kernel accesses, an access to an unmapped address ends only
// the context: chips that load CUBINs. The case skips all other devices.
void unmapped_address(const Context& context) {
  TableBench bench(context, 2);
  std::byte* const device = bench.memory(kBytes);
  std::byte* const pinned = bench.memory(kBytes, KEEL_MEMORY_PINNED);
  keel_plugin_event* const before = bench.event();
  keel_plugin_event* const behind = bench.event();
  const TableKernel kernel(
      bench.context(), [](const KernelSet& set) { return set.format == KEEL_BINARY_CUBIN; },
      "failures: untested, as the suite knows no kernel that fails on such a device");
  note("failures: real");
  kernel.launch(bench.stream(0), device, TableKernel::kBlock, 0);  // a valid launch
  bench.record(before, 0);
  bench.settle();
  bench.occupy(0);  // so that later work is enqueued before the failure is known
  kernel.launch(bench.stream(0), device + (uint64_t{1} << 34), TableKernel::kBlock, 0);
  const keel_status recorded = observe_status(bench.table().event_record(behind, bench.stream(0)));
  const keel_status failure = recorded == KEEL_OK ? bench.poll(behind) : recorded;
  check(failure != KEEL_OK, "a kernel that wrote to an address that is not mapped did not fail");
  check(failure != KEEL_NOT_READY, "a kernel that wrote to an address that is not mapped hangs");
  if (recorded == KEEL_OK) {
    need_be(failure, bench.query(behind), "event_query behind work that failed, again");
  }
  const keel_stream_table* const table = &bench.table();
  if (observe(KEEL_HAS(keel_stream_table, table, query))) {
    need_be(failure, table->query(bench.stream(0)), "stream.query of one that failed");
  }
  if (failure == KEEL_DEVICE_LOST) {
    check_lost(bench, before, before, device, pinned);
  } else {
    check_usable(bench.context(), fmt::format("work that failed with {}, no loss of the device",
                                              keel_status_name(failure)));
  }
}

// Without the setting the test functions must refuse.
void refused(const Context& context) {
  const TableStream stream(context);
  const keel_test_table* const tests = device_of(context).test_table();
  if (!observe(tests != nullptr)) unsupported("no test table");
  keel_plugin_hold* hold = nullptr;
  need_be(KEEL_FAILED_PRECONDITION, tests->fail_work(stream.get(), KEEL_UNAVAILABLE),
          "fail_work in an instance without conformance=1");
  need_be(KEEL_FAILED_PRECONDITION, tests->hold(stream.get(), &hold),
          "hold in an instance without conformance=1");
  need(stream.settle(), "the stream of an instance without conformance=1");
}

}  // namespace

void add_failure_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {std::string("async/tables/") + id,
         capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
         /*full=*/false, std::move(body)});
  };
  add("failure/sticks", sticks);
  add("failure/statuses", statuses);
  add("failure/notified", notified, KEEL_CAPABILITY_NOTIFY);
  add("failure/follower", follower);
  add("failure/goes_on", goes_on);
  add("failure/device_lost", device_lost);
  add("failure/refused", refused);
  add("failure/alone/unmapped_address", unmapped_address, KEEL_CAPABILITY_KERNELS);
  cases->back().alone = true;
}

}  // namespace keel::conformance
