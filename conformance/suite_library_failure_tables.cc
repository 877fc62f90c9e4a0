// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: the vendor's library under the plugin fails. The
// emulated chip's libraries do so on demand, as does a stand-in for Vulkan's loader, each case in a
// process of its own. suite_failure_tables.cc has what a failure is; these cases prove that the
// plugin's branches for one lead there.
#include <fmt/format.h>

#include <deque>
#include <keel/plugin_kit.hpp>

#include "conformance/collective_script.h"
#include "conformance/harness.h"
#include "conformance/library_faults.h"
#include "conformance/op_calls.h"
#include "conformance/table_bench.h"
#include "conformance/table_failures.h"

namespace keel::conformance {

namespace {

// The faults of add_library_failure_table_cases() fall into these rounds, of two copies at most.
constexpr uint32_t kRounds = 48;
constexpr uint64_t kBytes = 64 << 10;  // as check_lost() needs
constexpr uint64_t kSlot = kBytes / kRounds / 64 * 64;
constexpr uint32_t kStale = 0xbadbadba;

enum class Work : uint8_t { kCopy, kFill, kOp };

// Rounds of work on stream 0: each writes a slot of device memory, downloads the slot, and records
// an event.
class Rounds {
 public:
  Rounds(TableBench& bench, Work work) : bench_(bench), work_(work) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      events_.push_back(bench.event());
      write_host(sources_ + round * kSlot, words(word_of(round), kSlot));
    }
    write_host(results_, words(kStale, kBytes));
    if (work == Work::kOp) prepare_op();
  }

  std::byte* device() const { return device_; }
  const std::byte* sources() const { return sources_; }
  keel_plugin_event* event(uint32_t round) const { return events_[round]; }

  // Enqueues |round|, and returns the first status that is not KEEL_OK.
  keel_status enqueue(uint32_t round) {
    const keel_stream_table& table = bench_.table();
    keel_plugin_stream* const stream = bench_.stream(0);
    std::byte* const slot = device_ + round * kSlot;
    keel_status status = observe_status(write(round, slot));
    if (status != KEEL_OK) return status;
    status = observe_status(
        table.copy(stream, KEEL_COPY_DEVICE_TO_HOST, results_ + round * kSlot, slot, kSlot));
    if (status != KEEL_OK) return status;
    return observe_status(table.event_record(events_[round], stream));
  }
  // Fails the case unless |round| downloaded what it wrote.
  void check_result(uint32_t round, Where where = Where::current()) const {
    const uint32_t wanted = work_ == Work::kOp ? kTwo : word_of(round);
    compare(read_host(results_ + round * kSlot, kSlot, where), words(wanted, kSlot),
            fmt::format("round {}, whose event completed", round), where);
  }

 private:
  static constexpr uint32_t kOne = 0x3f800000;  // of float32
  static constexpr uint32_t kTwo = 0x40000000;
  uint32_t word_of(uint32_t round) const { return work_ == Work::kOp ? kOne : 0x5eed0000 + round; }
  static keel_tensor tensor(std::byte* data) {
    return kit::make_tensor(data, KEEL_FLOAT32, {static_cast<int64_t>(kSlot / 4)});
  }

  void prepare_op() {
    ones_ = bench_.memory(kSlot);
    bench_.copy(0, KEEL_COPY_HOST_TO_DEVICE, ones_, sources_, kSlot);
    const OpCall add(KEEL_OP_ADD, {tensor(ones_), tensor(ones_)}, tensor(device_));
    auto support = KEEL_STRUCT_INIT(keel_op_support, KEEL_STRUCT_OP_SUPPORT);
    const keel_plugin& plugin = device_of(bench_.context()).plugin();
    need(plugin.op->query(bench_.device(), add.get(), &support), "op.query");
    const uint64_t size = observe(support.workspace_bytes);
    if (size != 0) workspace_ = bench_.memory(size);
  }
  keel_status write(uint32_t round, std::byte* slot) {
    const keel_plugin& plugin = device_of(bench_.context()).plugin();
    keel_plugin_stream* const stream = bench_.stream(0);
    const uint32_t word = word_of(round);
    switch (work_) {
      case Work::kCopy:
        return plugin.stream->copy(stream, KEEL_COPY_HOST_TO_DEVICE, slot, sources_ + round * kSlot,
                                   kSlot);
      case Work::kFill:
        return plugin.stream->fill(stream, slot, &word, sizeof(word), kSlot);
      case Work::kOp:
        break;
    }
    const OpCall add(KEEL_OP_ADD, {tensor(ones_), tensor(ones_)}, tensor(slot));
    return plugin.op->run(stream, add.get(), workspace_);
  }

  TableBench& bench_;
  const Work work_;
  std::byte* const device_ = bench_.memory(kBytes);
  std::byte* const sources_ = bench_.memory(kBytes, KEEL_MEMORY_PINNED);
  std::byte* const results_ = bench_.memory(kBytes, KEEL_MEMORY_PINNED);
  std::vector<keel_plugin_event*> events_;
  std::byte* ones_ = nullptr;
  std::byte* workspace_ = nullptr;
};

[[noreturn]] void not_reached() {
  unsupported("the plugin did all of it without the call that fails");
}

// Asks for the states of the first |count| events: a failure is that of all later events, too.
// Returns the failure, and in |out_first| the first event with it.
keel_status first_failure(TableBench& bench, const Rounds& rounds, uint32_t count,
                          uint32_t* out_first) {
  keel_status failure = KEEL_OK;
  for (uint32_t round = 0; round < count; ++round) {
    const keel_status state = bench.poll(rounds.event(round));
    check(state != KEEL_NOT_READY, "work behind a call of the library that failed does not end");
    if (failure != KEEL_OK) {
      need_be(failure, state, "event_query behind work that failed");
    } else if (state == KEEL_OK) {
      rounds.check_result(round);
    } else {
      failure = state;
      *out_first = round;
    }
  }
  return failure;
}

// The failure of a stream stays: for each of its later events, however often and however asked.
void check_sticks(TableBench& bench, const Rounds& rounds, keel_status failure, uint32_t first,
                  uint32_t count) {
  const keel_stream_table* const table = &bench.table();
  const int64_t wait_ns = bench.context().environment.wait_ns;
  for (uint32_t again = 0; again < 2; ++again) {
    for (uint32_t round = first; round < count; ++round) {
      need_be(failure, bench.query(rounds.event(round)), "event_query of it, again");
      if (observe(KEEL_HAS(keel_stream_table, table, event_wait))) {
        need_be(failure, table->event_wait(rounds.event(round), wait_ns), "event_wait for it");
      }
    }
    if (observe(KEEL_HAS(keel_stream_table, table, query))) {
      need_be(failure, table->query(bench.stream(0)), "stream.query of a stream that failed");
    }
    if (observe(KEEL_HAS(keel_stream_table, table, synchronize))) {
      need_be(failure, table->synchronize(bench.stream(0), wait_ns),
              "stream.synchronize of a stream that failed");
    }
  }
}

// The library accepts a call, and its work fails in its turn.
void work_fails(const Context& context, Work work) {
  std::deque<Heard> heard(kRounds);  // outlives the streams whose work calls
  TableBench bench(context, 2);
  Rounds rounds(bench, work);
  note("failures: injected");
  keel_plugin_event* const idle = bench.event();
  bench.record(idle, 0);
  need(bench.poll(idle), "an event before work that fails");
  const bool has_notify = bench.has(KEEL_CAPABILITY_NOTIFY);
  uint32_t count = 0;
  uint32_t notified = 0;
  keel_status refused = KEEL_OK;
  while (count < kRounds && (refused = rounds.enqueue(count)) == KEEL_OK) {
    if (has_notify && notified == count) {
      const keel_status asked = observe_status(
          bench.table().event_notify(rounds.event(count), Heard::hear, &heard[count]));
      notified += asked == KEEL_OK ? 1 : 0;
    }
    ++count;
  }
  uint32_t first = count;
  const keel_status failure = first_failure(bench, rounds, count, &first);
  if (failure != KEEL_OK && refused != KEEL_OK) {
    need_be(failure, refused, "a call behind work that failed");
  }
  const keel_status state = failure != KEEL_OK ? failure : refused;
  if (state == KEEL_OK) not_reached();
  check_sticks(bench, rounds, state, first, count);
  for (uint32_t round = 0; round < notified; ++round) {
    check(await_calls(heard[round], 1, context.environment.wait_ns / 2) == 1,
          fmt::format("event_notify of event {}: not one callback", round));
    const keel_status told = observe_status(heard[round].status.load());
    check(told == state || (told == KEEL_OK && round < first) ||
              (told == KEEL_OK && state == KEEL_DEVICE_LOST),
          fmt::format("event_notify of event {} says {}, and event_query {}", round,
                      keel_status_name(told), keel_status_name(state)));
  }
  if (state == KEEL_DEVICE_LOST) {
    check_lost(bench, idle, idle, rounds.device(), rounds.sources());
    return;
  }
  bench.copy(1, KEEL_COPY_HOST_TO_DEVICE, rounds.device(), rounds.sources(), kSlot);
  bench.record(idle, 1);
  need(bench.poll(idle), "a copy on another stream than the one that failed");
  check_usable(bench.context(), fmt::format("work that failed with {}", keel_status_name(state)));
}

// The library refuses one call: the plugin says so, and nothing else comes of it.
void call_is_refused(const Context& context, Work work) {
  TableBench bench(context, 1);
  Rounds rounds(bench, work);
  note("failures: injected");
  bool was_refused = false;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const keel_status status = rounds.enqueue(round);
    if (status == KEEL_OK) continue;
    check(!was_refused, "one call of the library failed, and calls of the plugin fail ever after");
    check(status != KEEL_NOT_READY && status != KEEL_DEVICE_LOST,
          fmt::format("a call that the library refuses returns {}", keel_status_name(status)));
    was_refused = true;
    need(rounds.enqueue(round), "the call that the library had refused, again");
  }
  bench.settle();
  for (uint32_t round = 0; round < kRounds; ++round) {
    need(bench.poll(rounds.event(round)), "event_query where a call was refused");
    rounds.check_result(round);
  }
  if (!was_refused) not_reached();
}

void memory_is_refused(const Context& context) {
  TableBench bench(context, 1);
  note("failures: injected");
  const keel_plugin& plugin = device_of(bench.context()).plugin();
  std::vector<void*> blocks(kRounds);
  bool was_refused = false;
  for (void*& block : blocks) {
    const auto allocate = [&] {
      return plugin.memory->alloc(bench.device(), KEEL_MEMORY_DEVICE, kBytes, /*usage=*/0, &block);
    };
    const keel_status status = observe_status(allocate());
    if (status == KEEL_OK) continue;
    check(!was_refused, "memory was refused once, and memory.alloc fails ever after");
    was_refused = true;
    check(status == KEEL_OUT_OF_MEMORY,
          fmt::format("memory.alloc where the library has none returns {}",
                      keel_status_name(status)));
    need(allocate(), "memory.alloc that the library had refused, again");
  }
  for (void* const block : blocks) {
    bench.fill(0, block, kStale, kBytes);
    bench.check_memory(0, static_cast<std::byte*>(block), kStale, kBytes, "what was allocated");
    need(plugin.memory->free(bench.device(), KEEL_MEMORY_DEVICE, block), "memory.free");
  }
  if (!was_refused) not_reached();
}

void stream_is_refused(const Context& context) {
  TableBench bench(context, 1);
  note("failures: injected");
  bool was_refused = false;
  for (uint32_t i = 0; i < kRounds; ++i) {
    keel_plugin_stream* stream = nullptr;
    const keel_status status =
        observe_status(bench.table().create(bench.device(), /*priority=*/0, &stream));
    if (status == KEEL_OK) {
      bench.table().destroy(stream);
      continue;
    }
    check(!was_refused, "a stream was refused once, and stream.create fails ever after");
    check(
        status != KEEL_NOT_READY && status != KEEL_DEVICE_LOST,
        fmt::format("stream.create that the library refuses returns {}", keel_status_name(status)));
    was_refused = true;
    check_usable(bench.context(), "a stream that the library refused");
  }
  if (!was_refused) not_reached();
}

// A collective fails in the library: async_error says so, an abort ends the ranks' streams, and the
// devices go on in another communicator.
void collective_fails(const Context& context) {
  constexpr uint32_t kCalls = 8;
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, abort) &&
               KEEL_HAS(keel_ccl_table, &table, async_error))) {
    unsupported("there is no ccl.abort, or no ccl.async_error");
  }
  const CallShape shape = usual_shape(context);
  const TableDevices devices(context, 2);
  note("failures: injected");
  {
    const TableRanks ranks(context, devices);
    std::deque<RankMemory> memory;
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      memory.emplace_back(ranks, rank, shape.count * 4);
    }
    const std::vector<keel_status> called = ranks.call_all([&](uint32_t rank) {
      keel_ccl_call call = call_of(shape, rank);
      call.send = call.receive = memory[rank].at(0);
      keel_status status = KEEL_OK;
      for (uint32_t i = 0; i < kCalls && status == KEEL_OK; ++i) {
        status = table.run(ranks.comm(rank), ranks.stream(rank), &call, 1);
      }
      return status;
    });
    const auto error = [&](uint32_t rank) { return table.async_error(ranks.comm(rank)); };
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      const keel_status failure =
          poll([&] { return error(rank) == KEEL_OK ? keel_status{KEEL_NOT_READY} : error(rank); },
               context.environment.wait_ns);
      check(failure != KEEL_NOT_READY,
            fmt::format("a collective failed in the library, and ccl.async_error of rank {} gives "
                        "no failure",
                        rank));
      need_be(failure, error(rank), "ccl.async_error, asked again");
      check(called[rank] == KEEL_OK || called[rank] == failure,
            fmt::format("ccl.run behind a collective that failed with {} returns {}",
                        keel_status_name(failure), keel_status_name(called[rank])));
    }
    ranks.need_all([&](uint32_t rank) { return table.abort(ranks.comm(rank)); }, "ccl.abort");
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      check(ranks.settle(rank) != KEEL_NOT_READY,
            fmt::format("a collective that failed does not end on rank {}, which aborted", rank));
    }
  }
  const TableRanks next(context, devices);
  expect_works(next, "a communicator made after a collective that failed");
}

}  // namespace

void add_library_failure_table_cases(const Environment& environment, std::vector<Case>* cases) {
  const std::string library = failing_library(environment);
  // |fault|: with the prefix of its library; other libraries lack the case.
  const auto add = [&](const std::string& id, const std::string& fault, uint64_t capabilities,
                       auto body) {
    if (library.empty() || !fault.starts_with(library)) return;
    cases->push_back({id, capabilities, /*full=*/false, std::move(body), /*alone=*/true, fault});
  };
  const auto add_async = [&](const char* id, const std::string& fault, uint64_t capabilities,
                             auto body) {
    add(std::string("async/tables/failure/library/") + id, fault,
        capabilities | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED, std::move(body));
  };
  const auto fails = [](Work work) {
    return [work](const Context& context) { work_fails(context, work); };
  };
  const auto is_refused = [](Work work) {
    return [work](const Context& context) { call_is_refused(context, work); };
  };
  add_async("copy_fails", "emulated:fail:copy@24", 0, fails(Work::kCopy));
  add_async("fill_fails", "emulated:fail:fill@24", KEEL_CAPABILITY_FILL, fails(Work::kFill));
  add_async("op_fails", "emulated:fail:op@24", KEEL_CAPABILITY_OPS, fails(Work::kOp));
  add_async("device_is_lost", "emulated:lose:copy@24", 0, fails(Work::kCopy));
  add_async("copy_is_refused", "emulated:refuse:copy@24", 0, is_refused(Work::kCopy));
  add_async("fill_is_refused", "emulated:refuse:fill@24", KEEL_CAPABILITY_FILL,
            is_refused(Work::kFill));
  add_async("op_is_refused", "emulated:refuse:op@24", KEEL_CAPABILITY_OPS, is_refused(Work::kOp));
  add_async("record_is_refused", "emulated:refuse:record@24", 0, is_refused(Work::kCopy));
  add_async("memory_is_refused", "emulated:refuse:alloc@24", KEEL_CAPABILITY_FILL,
            memory_is_refused);
  add_async("stream_is_refused", "emulated:refuse:stream@8", 0, stream_is_refused);
  add("collectives/tables/library/collective_fails", "emulated:fail:ccl@4", KEEL_CAPABILITY_CCL,
      collective_fails);
  // Work waits in batches: a submission that is refused is work that fails.
  add_async("copy_fails", "vulkan:refuse:submit@24", 0, fails(Work::kCopy));
  add_async("fill_fails", "vulkan:refuse:submit@24", KEEL_CAPABILITY_FILL, fails(Work::kFill));
  add_async("op_fails", "vulkan:refuse:submit@24", KEEL_CAPABILITY_OPS, fails(Work::kOp));
  add_async("device_is_lost", "vulkan:lose:submit@24", 0, fails(Work::kCopy));
  add_async("device_is_lost_meanwhile", "vulkan:lose:wait@24", 0, fails(Work::kCopy));
  add_async("memory_is_refused", "vulkan:refuse:memory@24", KEEL_CAPABILITY_FILL,
            memory_is_refused);
  add_async("stream_is_refused", "vulkan:refuse:pool@8", 0, stream_is_refused);
}

}  // namespace keel::conformance
