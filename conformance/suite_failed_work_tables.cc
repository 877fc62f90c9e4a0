// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: each slot that enqueues, behind work that failed; and
// those who wait while it fails. suite_failure_tables.cc has the cases of what a failure is.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <optional>

#include "conformance/harness.h"
#include "conformance/op_calls.h"
#include "conformance/table_bench.h"
#include "conformance/table_calls.h"
#include "conformance/table_kernel.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kBytes = 64 << 10;
constexpr uint32_t kWord = 0x5eed0001;
constexpr uint32_t kStale = 0xbadbadba;
constexpr int64_t kMillisecond = 1'000'000;

// ---- each slot behind a failure -------------------------------------------------------------

// Memory that nothing may write, and a way to enqueue a write of it by each slot.
class Victims {
 public:
  explicit Victims(TableBench& bench)
      : bench_(bench),
        device_(bench.memory(kAreas * kBytes)),
        source_(bench.memory(kBytes)),
        to_host_(bench.memory(2 * kBytes, KEEL_MEMORY_PINNED)),
        from_host_(bench.memory(kBytes, KEEL_MEMORY_PINNED)),
        pageable_(bench.host_memory(2 * kBytes)),
        from_pageable_(bench.host_memory(kBytes)) {
    if (bench.has(KEEL_CAPABILITY_KERNELS)) {
      try {
        kernel_.emplace(
            bench.context(), [](const KernelSet&) { return true; }, "");
      } catch (const CaseUnsupported&) {
      }
    }
    bench.fill(1, device_, kStale, kAreas * kBytes);
    bench.fill(1, source_, kWord, kBytes);
    bench.settle();
    write_host(to_host_, words(kStale, 2 * kBytes));
    write_host(pageable_, words(kStale, 2 * kBytes));
    write_host(from_host_, words(kWord, kBytes));
    write_host(from_pageable_, words(kWord, kBytes));
  }

  // Enqueues on stream 0. A slot may refuse. Without |may_wait|, memory that is pageable is used
  // only where copies of it do not block.
  void attack(bool may_wait) {
    uint32_t area = 0;
    const keel_stream_table& table = bench_.table();
    keel_plugin_stream* const stream = bench_.stream(0);
    const bool pageable = may_wait || bench_.has(KEEL_CAPABILITY_PAGEABLE_ASYNC);
    const auto next = [&] { return device_ + area++ * kBytes; };
    for (const uint64_t size : {uint64_t{4}, uint64_t{1000}, kBytes}) {
      refusable(table.copy(stream, KEEL_COPY_HOST_TO_DEVICE, next(), from_host_, size));
      refusable(table.copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, next(), source_, size));
      refusable(table.copy(stream, KEEL_COPY_DEVICE_TO_HOST, to_host_, source_, size));
      if (!pageable) continue;
      refusable(table.copy(stream, KEEL_COPY_HOST_TO_DEVICE, next(), from_pageable_, size));
      refusable(table.copy(stream, KEEL_COPY_DEVICE_TO_HOST, pageable_, source_, size));
    }
    const uint64_t pattern = uint64_t{kWord} << 32 | kWord;
    for (const uint32_t unit : {1U, 2U, 4U, 8U}) {
      refusable(table.fill(stream, next(), &pattern, unit, unit == 4 ? 8 : kBytes));
    }
    if (bench_.has(KEEL_CAPABILITY_OPS)) {
      const auto tensor = [](void* data) {
        return kit::make_tensor(data, KEEL_FLOAT32, {static_cast<int64_t>(kBytes / 4)});
      };
      const OpCall fill(KEEL_OP_FILL, {}, tensor(next()), {{.f = 1.0}});
      const OpCall add(KEEL_OP_ADD, {tensor(source_), tensor(source_)}, tensor(next()));
      const keel_op_table& ops = *device_of(bench_.context()).plugin().op;
      for (const OpCall* const call : {&fill, &add}) {
        refusable(ops.run(stream, call->get(), /*workspace=*/nullptr));
      }
    }
    if (kernel_) refusable(kernel_->try_launch(stream, next(), kBytes / 4, 1));
    check(area <= kAreas, "more areas than there are");
  }

  void check_untouched(const std::string& when, Where where = Where::current()) {
    bench_.check_memory(1, device_, kStale, kAreas * kBytes, "device memory " + when, where);
    const std::vector<std::byte> stale = words(kStale, 2 * kBytes);
    compare(read_host(to_host_, 2 * kBytes, where), stale, "pinned memory " + when, where);
    compare(read_host(pageable_, 2 * kBytes, where), stale, "pageable memory " + when, where);
  }
  void end() {
    if (kernel_) kernel_->unload();
  }

 private:
  static constexpr uint32_t kAreas = 20;
  void refusable(keel_status status, Where where = Where::current()) {
    (void)observe_status(status, where);
  }

  TableBench& bench_;
  std::byte* const device_;
  std::byte* const source_;
  std::byte* const to_host_;
  std::byte* const from_host_;
  std::byte* const pageable_;
  std::byte* const from_pageable_;
  std::optional<TableKernel> kernel_;
};

// Work that any slot enqueues behind a failure does not run: neither before the failure is known,
// nor once it is, nor behind a wait for another stream's event.
void every_slot(const Context& context) {
  TableBench bench(context, 2);
  const keel_test_table& tests = bench.failing();
  const keel_stream_table& table = bench.table();
  keel_plugin_event* const behind = bench.event();
  keel_plugin_event* const further = bench.event();
  keel_plugin_event* const awaited = bench.event();
  Victims victims(bench);
  bench.record(awaited, 1);
  bench.settle();
  bench.behind_work(0, [&] {
    need(tests.fail_work(bench.stream(0), KEEL_OUT_OF_RANGE), "fail_work");
    victims.attack(/*may_wait=*/false);
    bench.record(behind, 0);
  });
  need_be(KEEL_OUT_OF_RANGE, bench.poll(behind), "event_query behind work that failed");
  victims.check_untouched("behind a failure that was not known");
  for (const bool is_done : {true, false}) {
    // A wait for an event that is done, and for one that is not: neither makes the stream well.
    if (!is_done) {
      bench.occupy(1);
      bench.record(awaited, 1);
    }
    (void)observe_status(table.stream_wait_event(bench.stream(0), awaited));
    victims.attack(/*may_wait=*/true);
    const keel_status recorded = observe_status(table.event_record(further, bench.stream(0)));
    need_be(KEEL_OUT_OF_RANGE, recorded == KEEL_OK ? bench.poll(further) : recorded,
            "an event behind all slots on a stream that failed");
    need(bench.poll(awaited), "event_query of another stream");
    victims.check_untouched(is_done ? "behind a failure that was known"
                                    : "behind a failure, and a wait for another stream");
  }
  victims.end();
}

// ---- those who wait -------------------------------------------------------------------------

// Threads that wait for an event and for its stream, and a callback, while |fail| makes the work
// end with |wanted|: each comes back with that status, at once. |fail| runs beside the waits.
void waits_end(const TableBench& bench, keel_plugin_event* event, keel_status wanted, Heard* heard,
               const std::function<keel_status()>& fail, Where where = Where::current()) {
  constexpr uint32_t kWaits = 4;
  const keel_stream_table* const table = &bench.table();
  const bool has_wait = observe(KEEL_HAS(keel_stream_table, table, event_wait), where);
  const bool has_synchronize = observe(KEEL_HAS(keel_stream_table, table, synchronize), where);
  const bool has_notify = bench.has(KEEL_CAPABILITY_NOTIFY);
  const int64_t wait_ns = bench.context().environment.wait_ns / 2;
  if (has_notify) need(table->event_notify(event, Heard::hear, heard), "event_notify", where);
  std::array<keel_status, kWaits + 1> statuses = {};
  std::array<int64_t, kWaits + 1> waited_ns = {};
  run_threads(kWaits + 1, [&](uint32_t i) {
    const int64_t start = steady_now();
    if (i == kWaits) {
      statuses[i] = fail();
    } else if (i % 2 == 0) {
      statuses[i] = has_wait ? table->event_wait(event, wait_ns) : bench.await(event);
    } else {
      statuses[i] =
          has_synchronize ? table->synchronize(bench.stream(0), wait_ns) : bench.await(event);
    }
    waited_ns[i] = steady_now() - start;
  });
  need(statuses[kWaits], "the call that makes the work fail", where);
  for (uint32_t i = 0; i < kWaits; ++i) {
    const char* const call = i % 2 == 0 ? "event_wait" : "stream.synchronize";
    need_be(wanted, statuses[i], fmt::format("{} while the work failed", call), where);
    const int64_t took_ns = observe(waited_ns[i], where);
    check(took_ns < wait_ns,
          fmt::format("{} of {} ms came back after {} ms, long after the failure", call,
                      wait_ns / kMillisecond, took_ns / kMillisecond),
          where);
  }
  if (!has_notify) return;
  check(await_calls(*heard, 1, wait_ns, where) == 1, "event_notify: not one callback of a failure",
        where);
  need_be(wanted, heard->status.load(), "the status of the callback", where);
}

void waiters(const Context& context) {
  Heard heard;  // outlives the streams whose work calls
  TableBench bench(context, 2);
  const keel_test_table& tests = bench.failing();
  keel_plugin_event* const event = bench.event();
  bench.occupy(0);
  need(tests.fail_work(bench.stream(0), KEEL_UNAVAILABLE), "fail_work");
  bench.record(event, 0);
  waits_end(bench, event, KEEL_UNAVAILABLE, &heard, [] { return keel_status{KEEL_OK}; });
}

void waiters_of_lost_device(const Context& context) {
  Heard heard;  // outlives the streams whose work calls
  TableBench bench(context, 2);
  const keel_test_table* const tests = &bench.failing();
  if (!observe(KEEL_HAS(keel_test_table, tests, lose_device))) {
    unsupported("the test table cannot lose a device");
  }
  keel_plugin_event* const event = bench.event();
  // The loss ends the work: a busy host needs longer until then than what occupy() lasts.
  bench.occupy(0, context.environment.wait_ns / 2);
  bench.record(event, 0);
  waits_end(bench, event, KEEL_DEVICE_LOST, &heard, [&] {
    pause_ns(5 * kMillisecond);
    return tests->lose_device(bench.device());
  });
}

// ---- other streams --------------------------------------------------------------------------

// Streams that wait for one another, the first of which fails: each ends. A stream that waits for
// none of them has work in flight meanwhile, and succeeds.
void chain_and_beside(const Context& context) {
  constexpr uint32_t kChain = 4;
  std::deque<Heard> heard(kChain + 1);  // outlives the streams whose work calls
  TableBench bench(context, kChain + 1);
  const keel_test_table& tests = bench.failing();
  const keel_stream_table* const table = &bench.table();
  const bool has_wait = observe(KEEL_HAS(keel_stream_table, table, event_wait));
  const bool has_query = observe(KEEL_HAS(keel_stream_table, table, query));
  const bool has_synchronize = observe(KEEL_HAS(keel_stream_table, table, synchronize));
  const int64_t wait_ns = context.environment.wait_ns;
  std::byte* const device = bench.memory(kBytes);
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i <= kChain; ++i) events.push_back(bench.event());
  bench.settle();
  bench.behind_work(0, [&] {
    need(tests.fail_work(bench.stream(0), KEEL_INVALID_ARGUMENT), "fail_work");
    for (uint32_t i = 0; i < kChain; ++i) {
      if (i != 0) bench.wait_event(i, events[i - 1]);
      bench.record(events[i], i);
    }
    bench.fill(kChain, device, kWord, kBytes);
    bench.record(events[kChain], kChain);
  });
  for (uint32_t i = 0; i <= kChain; ++i) {
    const keel_status end = bench.poll(events[i]);
    check(end != KEEL_NOT_READY, fmt::format("stream {} behind one that failed does not end", i));
    if (i == 0) need_be(KEEL_INVALID_ARGUMENT, end, "the stream that failed");
    if (i == kChain) need(end, "a stream beside one that failed");
    check(end == KEEL_OK || end == KEEL_INVALID_ARGUMENT || end == KEEL_INTERNAL,
          fmt::format("stream {} behind one that failed fails with {}", i, keel_status_name(end)));
    if (has_wait) need_be(end, table->event_wait(events[i], 0), "event_wait of what has ended");
    if (has_query) {
      need_be(end, poll([&] { return table->query(bench.stream(i)); }, wait_ns), "stream.query");
    }
    if (has_synchronize) {
      need_be(end, table->synchronize(bench.stream(i), wait_ns), "stream.synchronize");
    }
    if (!bench.has(KEEL_CAPABILITY_NOTIFY)) continue;
    need(table->event_notify(events[i], Heard::hear, &heard[i]), "event_notify");
    check(await_calls(heard[i], 1, wait_ns / 2) == 1,
          "event_notify of what has ended: not one callback");
    need_be(end, heard[i].status.load(), "the status of a callback of what has ended");
  }
  bench.check_memory(kChain, device, kWord, kBytes, "work beside a stream that failed");
}

// Only the value 1 turns the test table on.
void refused_by_value(const Context& context) {
  const keel_test_table* const tests = device_of(context).test_table();
  if (!observe(tests != nullptr) || tests == nullptr) unsupported("no test table");
  for (const char* const value : {"0", ""}) {
    keel_plugin_instance* instance = nullptr;
    const keel_status made = observe_status(
        TableInstance::create(context, {{"conformance", value}}, /*next=*/nullptr, &instance));
    if (made != KEEL_OK) {
      check(made == KEEL_INVALID_ARGUMENT,
            fmt::format("an instance with conformance={}: {}", value, keel_status_name(made)));
      continue;
    }
    {
      const TableDevice device(context, instance, observe(device_of(context).ordinal()), 4096);
      need_be(KEEL_FAILED_PRECONDITION, tests->fail_work(device.stream(), KEEL_UNAVAILABLE),
              fmt::format("fail_work in an instance with conformance={}", value));
      device.settle();
    }
    device_of(context).plugin().destroy_instance(instance);
  }
}

}  // namespace

void add_failed_work_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body) {
    cases->push_back({std::string("async/tables/failure/") + id,
                      KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_FILL,
                      /*full=*/false, std::move(body)});
  };
  add("every_slot", every_slot);
  add("waiters", waiters);
  add("waiters_of_lost_device", waiters_of_lost_device);
  add("chain_and_beside", chain_and_beside);
  add("refused_by_value", refused_by_value);
}

}  // namespace keel::conformance
