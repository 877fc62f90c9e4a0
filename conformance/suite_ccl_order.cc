// SPDX-License-Identifier: Apache-2.0
// Level collectives, cases on the plugin's own ccl table with several ranks: ordering, and release
// of resources.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <keel/plugin_kit.hpp>
#include <keel/thread_start.hpp>
#include <memory>
#include <thread>

#include "conformance/busy_ranks.h"
#include "conformance/collective_script.h"
#include "conformance/process_counts.h"
#include "conformance/table_bench.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

// ---- order --------------------------------------------------------------------------------------

constexpr int64_t kLateNs = 50'000'000;  // by which a rank calls after the others
// Deadlines of ranks whose peers never call.
constexpr int64_t kShort = 2'000'000;
constexpr int64_t kLong = 250'000'000;

// A collective must read the results of earlier work on its stream, and later work must see the
// collective's result, even if one rank's stream is late.
void keeps_its_place(const Context& context) {
  const CallShape shape = usual_shape(context, /*count=*/65'536);
  constexpr uint32_t kCopies = 24;
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  const keel_ccl_table& table = ccl_table_of(context);
  const keel_stream_table& streams = *device_of(context).plugin().stream;
  const uint64_t bytes = shape.count * 4;
  const uint32_t world = ranks.world();
  std::deque<RankMemory> sources;
  std::deque<RankMemory> memory;
  std::deque<RankMemory> results;
  for (uint32_t rank = 0; rank < world; ++rank) {
    sources.emplace_back(ranks, rank, 2 * bytes);
    memory.emplace_back(ranks, rank, bytes);
    results.emplace_back(ranks, rank, bytes);
    for (uint32_t i = 0; i < 2; ++i) {
      ranks.upload(rank, sources[rank].at(i * bytes),
                   elements(KEEL_FLOAT32, 0, shape.count, [&](uint64_t element) {
                     return i == 0 ? -1000 : static_cast<int64_t>(element % 1000 + rank);
                   }));
    }
  }
  const auto copy = [&](uint32_t rank, std::byte* to, const std::byte* from) {
    return streams.copy(ranks.stream(rank), KEEL_COPY_DEVICE_TO_DEVICE, to, from, bytes);
  };
  for (uint32_t late = 0; late < world; ++late) {
    ranks.need_all(
        [&](uint32_t rank) {
          // Copy wrong values first, on the late rank many times, and the right values last.
          keel_status status = KEEL_OK;
          for (uint32_t i = 0; i < (rank == late ? kCopies : 1) && status == KEEL_OK; ++i) {
            status = copy(rank, memory[rank].at(0), sources[rank].at(0));
          }
          if (status == KEEL_OK) status = copy(rank, memory[rank].at(0), sources[rank].at(bytes));
          keel_ccl_call call = call_of(shape, rank);
          call.root = static_cast<int32_t>(late);
          call.send = call.receive = memory[rank].at(0);
          if (status == KEEL_OK) status = table.run(ranks.comm(rank), ranks.stream(rank), &call, 1);
          if (status == KEEL_OK) status = copy(rank, results[rank].at(0), memory[rank].at(0));
          if (status == KEEL_OK) status = copy(rank, memory[rank].at(0), sources[rank].at(0));
          return status;
        },
        "copies, a collective and copies");
    const Bytes wanted = elements(KEEL_FLOAT32, 0, shape.count, [&](uint64_t element) {
      int64_t sum = 0;
      for (uint32_t rank = 0; rank < world; ++rank) {
        sum += static_cast<int64_t>(element % 1000 + rank);
      }
      return shape.collective == KEEL_ALL_REDUCE ? sum
                                                 : static_cast<int64_t>(element % 1000 + late);
    });
    for (uint32_t rank = 0; rank < world; ++rank) {
      need(ranks.settle(rank), "copies, a collective and copies");
      check_equal(
          ranks.download(rank, results[rank].at(0), bytes), wanted,
          fmt::format("what a copy behind a collective sees on rank {}, rank {} late", rank, late));
    }
  }
}

// The result of one attempt of returns_early(), of the calls of all ranks.
enum class Return : uint64_t {
  kUnknown,  // the copies were done too soon
  kEarly,    // before earlier work was done, on every rank
  kLate,     // on some rank only afterwards, although no rank's work was done when it called
};

// run() of every rank returns while earlier work of the ranks' streams is not done, and takes its
// turn behind it. A first run of each size comes before: it may connect the ranks, and wait for the
// device to. Without gates the earlier work is copies, each time four times as many; late is who
// returns late twice in succession and the second time twice as late, with the copies and not by a
// moment without a core.
void returns_early(const Context& context) {
  constexpr uint32_t kMostRounds = 256;
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  const keel_ccl_table& table = ccl_table_of(context);
  const uint32_t world = ranks.world();
  BusyRanks busy(context, ranks);
  for (const uint64_t count : {uint64_t{5}, uint64_t{100'003}}) {
    const CallShape shape = usual_shape(context, count);
    const auto value = [](uint32_t rank, uint64_t i) {
      return static_cast<int64_t>(i % 1000 + 7 * rank);
    };
    std::deque<RankMemory> memory;
    for (uint32_t rank = 0; rank < world; ++rank) memory.emplace_back(ranks, rank, count * 4);
    const auto run = [&](uint32_t rank) {
      keel_ccl_call call = call_of(shape, rank);
      call.send = call.receive = memory[rank].at(0);
      return table.run(ranks.comm(rank), ranks.stream(rank), &call, 1);
    };
    ranks.need_all(run, "the first ccl.run");
    for (uint32_t rank = 0; rank < world; ++rank) need(ranks.settle(rank), "the first ccl.run");
    Return last = Return::kUnknown;
    int64_t last_ns = 0;  // the longest call of the attempt before
    bool is_late = false;
    for (uint32_t rounds = 4; last != Return::kEarly && rounds <= kMostRounds; rounds *= 4) {
      for (uint32_t rank = 0; rank < world; ++rank) {
        ranks.upload(rank, memory[rank].at(0),
                     elements(KEEL_FLOAT32, 0, count, [&](uint64_t i) { return value(rank, i); }));
      }
      std::atomic<uint32_t> returned{0};
      std::atomic<uint32_t> called_busy{0};
      std::atomic<uint32_t> returned_busy{0};
      std::atomic<int64_t> longest_ns{0};
      std::vector<keel_status> statuses(world, KEEL_OK);
      busy.begin(rounds);
      run_threads(world + 1, [&](uint32_t rank) {
        if (rank < world) {
          if (busy.is_busy(rank)) called_busy.fetch_add(1);
          const int64_t begin = steady_now();
          statuses[rank] = run(rank);
          const int64_t ns = steady_now() - begin;
          for (int64_t most = longest_ns;
               ns > most && !longest_ns.compare_exchange_weak(most, ns);) {
          }
          if (busy.is_busy(rank)) returned_busy.fetch_add(1);
          returned.fetch_add(1);
          return;
        }
        const auto all_returned = [&] {
          return returned.load() == world ? keel_status{KEEL_OK} : keel_status{KEEL_NOT_READY};
        };
        (void)poll_unobserved(all_returned, context.environment.wait_ns / 2);
        busy.let_go();  // in any case, so that a call that waits for them comes back
      });
      const int64_t before_ns = last_ns;
      last_ns = observe(longest_ns.load());
      const bool was_late = last == Return::kLate;
      last = Return::kUnknown;
      if (returned_busy == world) {
        last = Return::kEarly;
      } else if (called_busy == world) {
        last = Return::kLate;
      }
      last = observe(last);
      is_late = was_late && last == Return::kLate && last_ns >= 2 * before_ns;
      // A rank that failed ends the case, which frees memory that the others may be using.
      for (uint32_t rank = 0; rank < world; ++rank) (void)ranks.settle_unobserved(rank);
      for (uint32_t rank = 0; rank < world; ++rank) {
        need(statuses[rank], "ccl.run behind work that is not done");
        need(ranks.settle(rank), "a collective behind other work");
        const Bytes wanted = elements(KEEL_FLOAT32, 0, count, [&](uint64_t i) {
          if (shape.collective != KEEL_ALL_REDUCE) return value(0, i);
          int64_t sum = 0;
          for (uint32_t peer = 0; peer < world; ++peer) sum += value(peer, i);
          return sum;
        });
        check_equal(ranks.download(rank, memory[rank].at(0), count * 4), wanted,
                    fmt::format("a collective behind other work, on rank {}", rank));
      }
      busy.end();
      if (busy.has_gates()) break;
    }
    // No number of copies may outlast the threads' start on a device that copies fast.
    if (last != Return::kEarly && !is_late && !busy.has_gates()) {
      unsupported("without gates, no work outlasts the call");
    }
    check(last == Return::kEarly,
          "ccl.run came back only when earlier work of its stream was done");
  }
}

// One communicator's calls on two unordered streams per rank: their inputs and outputs must not
// mix.
void two_streams(const Context& context) {
  constexpr uint32_t kRounds = 12;
  CallShape shape = usual_shape(context, 4099);
  // All-to-all in place, for which a plugin may need temporary memory.
  if (ccl_can(context, KEEL_ALL_TO_ALL, KEEL_FLOAT32)) shape.collective = KEEL_ALL_TO_ALL;
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  const TableRanks more(context, devices);  // provides the second streams
  const keel_ccl_table& table = ccl_table_of(context);
  const uint32_t world = ranks.world();
  const uint64_t pieces = shape.collective == KEEL_ALL_TO_ALL ? world : 1;
  const uint64_t bytes = shape.count * pieces * 4;
  const auto value = [](uint32_t round, uint32_t rank, uint64_t i) {
    return static_cast<int64_t>(i % 1013 + 1000 * rank + 100'000 * round);
  };
  std::deque<RankMemory> memory;
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      memory.emplace_back(ranks, rank, bytes);
      ranks.upload(rank, memory.back().at(0),
                   elements(KEEL_FLOAT32, 0, shape.count * pieces,
                            [&](uint64_t i) { return value(round, rank, i); }));
    }
  }
  ranks.need_all(
      [&](uint32_t rank) {
        keel_status status = KEEL_OK;
        for (uint32_t round = 0; round < kRounds && status == KEEL_OK; ++round) {
          keel_ccl_call call = call_of(shape, rank);
          call.send = call.receive = memory[round * world + rank].at(0);
          const TableRanks& own = round % 2 == 0 ? ranks : more;
          status = table.run(ranks.comm(rank), own.stream(rank), &call, 1);
        }
        return status;
      },
      "calls on two streams by turns");
  for (uint32_t rank = 0; rank < world; ++rank) {
    need(ranks.settle(rank), "calls on two streams");
    need(more.settle(rank), "calls on two streams");
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Bytes wanted = elements(KEEL_FLOAT32, 0, shape.count * pieces, [&](uint64_t i) {
        if (shape.collective == KEEL_BROADCAST) return value(round, 0, i);
        if (shape.collective == KEEL_ALL_TO_ALL) {
          return value(round, static_cast<uint32_t>(i / shape.count),
                       rank * shape.count + i % shape.count);
        }
        int64_t sum = 0;
        for (uint32_t peer = 0; peer < world; ++peer) sum += value(round, peer, i);
        return sum;
      });
      check_equal(ranks.download(rank, memory[round * world + rank].at(0), bytes), wanted,
                  fmt::format("call {} on rank {}, on two streams by turns", round, rank));
    }
  }
}

// init_rank of the other ranks must not return before a late rank joins.
void late_rank(const Context& context) {
  using Clock = std::chrono::steady_clock;
  // A library that keeps 32 bits of the deadline gives up after a microsecond.
  constexpr int64_t kDeadline = (int64_t{1} << 32) + 1000;
  usual_shape(context);
  const keel_ccl_table& table = ccl_table_of(context);
  const TableDevices devices(context);
  const uint32_t world = devices.count();
  Bytes id(16384);
  uint64_t size = id.size();
  need(table.unique_id(devices.get(0), id.data(), &size), "ccl.unique_id");
  size = observe(size);
  const uint32_t late = world - 1;
  std::vector<keel_plugin_comm*> comms(world, nullptr);
  std::vector<keel_status> statuses(world, KEEL_OK);
  std::vector<Clock::time_point> returned(world);
  Clock::time_point called;
  run_threads(world, [&](uint32_t rank) {
    if (rank == late) {
      pause_ns(kLateNs);
      called = Clock::now();
    }
    statuses[rank] = table.init_rank(devices.get(rank), id.data(), size, static_cast<int32_t>(rank),
                                     static_cast<int32_t>(world), kDeadline, &comms[rank]);
    returned[rank] = Clock::now();
  });
  std::vector<uint32_t> order;
  for (uint32_t rank = 0; rank < world; ++rank) {
    order.push_back(rank);
    need(statuses[rank], fmt::format("ccl.init_rank of rank {}", rank));
    check(observe(returned[rank] >= called),
          fmt::format("ccl.init_rank of rank {} returns before rank {} has come", rank, late));
  }
  const TableRanks ranks(context, devices, order, comms);
  expect_works(ranks, "a communicator of which one rank came late");
}

// A rank whose peers do not join.
struct LoneRank {
  Bytes id = Bytes(16384);
  uint64_t size = 16384;
  keel_plugin_comm* comm = nullptr;
  keel_status status = KEEL_OK;
  int64_t waited_ns = 0;
  std::atomic<bool> is_back = false;
};

// Returns whether init_rank came back. It runs on a detached thread, which is leaked if not.
bool comes_back(const Context& context, const TableDevices& devices, int64_t deadline_ns,
                const std::shared_ptr<LoneRank>& rank) {
  const keel_ccl_table& table = ccl_table_of(context);
  need(table.unique_id(devices.get(0), rank->id.data(), &rank->size), "ccl.unique_id");
  if (!judging()) {
    auto waiting = kit::start_thread<std::thread>("keel-conform", [rank, &table, deadline_ns,
                                                                   device = devices.get(0)] {
      const auto start = std::chrono::steady_clock::now();
      rank->status = table.init_rank(device, rank->id.data(), rank->size, /*rank=*/0,
                                     /*world=*/2, deadline_ns, &rank->comm);
      rank->waited_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
      rank->is_back.store(true);
    });
    waiting.detach();
  }
  return poll(
             [&] {
               return rank->is_back.load() ? keel_status{KEEL_OK} : keel_status{KEEL_NOT_READY};
             },
             context.environment.wait_ns / 2) == KEEL_OK;
}

// A rank whose peers do not join must return KEEL_TIMED_OUT at its deadline, if the library
// supports deadlines. A short one comes first: a library that takes it for another unit comes back
// late from the short one, and not at all from the long one.
void missing_rank(const Context& context) {
  usual_shape(context);
  const TableDevices devices(context);
  for (const int64_t deadline : {kShort, kLong}) {
    const auto rank = std::make_shared<LoneRank>();
    if (!comes_back(context, devices, deadline, rank)) {
      if (deadline == kShort) unsupported("the library knows no deadline");
      check(false,
            fmt::format("ccl.init_rank of a rank that is alone gives up after {} ns, but goes on "
                        "past {} ns",
                        kShort, kLong));
    }
    need_be(KEEL_TIMED_OUT, rank->status, "ccl.init_rank of a rank that is alone");
    const int64_t waited = observe(rank->waited_ns);
    check(waited >= deadline * 9 / 10,
          fmt::format("ccl.init_rank gives up after {} of {} ns", waited, deadline));
  }
  const TableRanks ranks(context, devices);
  expect_works(ranks, "a communicator behind one that was not made");
}

// A split waits for a rank that comes late, up to a deadline of more than 32 bits.
void late_split(const Context& context) {
  constexpr int64_t kDeadline = (int64_t{1} << 32) + 1000;
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, split))) unsupported("there is no ccl.split");
  usual_shape(context);
  const TableDevices devices(context);
  const TableRanks whole(context, devices);
  const uint32_t world = whole.world();
  const std::vector<uint32_t> all = whole.all();
  std::vector<keel_plugin_comm*> made(world, nullptr);
  const std::vector<keel_status> statuses = whole.call_all([&](uint32_t rank) {
    if (rank == world - 1) pause_ns(kLateNs);
    return table.split(whole.comm(rank), all.data(), world, rank, kDeadline, &made[rank]);
  });
  for (const keel_status status : statuses) {
    if (status == KEEL_UNSUPPORTED) unsupported("the library has no splits");
    need(status, "ccl.split, to which one rank came late");
  }
  const TableRanks part(context, devices, all, made);
  expect_works(part, "a split to which one rank came late");
}

// A rank that splits alone gives up at its deadline, where the library knows one: a short one, and
// a longer one, so that a library that takes it for another unit is late or early.
void lone_split(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, abort) &&
               KEEL_HAS(keel_ccl_table, &table, split))) {
    unsupported("there is no ccl.abort, or no ccl.split");
  }
  usual_shape(context);
  const TableDevices devices(context);
  for (const int64_t deadline : {kShort, kLong}) {
    const TableRanks ranks(context, devices);
    const std::vector<uint32_t> all = ranks.all();
    keel_plugin_comm* made = nullptr;
    std::atomic<bool> is_back{false};
    bool in_time = false;
    keel_status status = KEEL_OK;
    int64_t waited_ns = 0;
    run_threads(2, [&](uint32_t thread) {
      if (thread == 0) {
        const int64_t start = steady_now();
        status = table.split(ranks.comm(0), all.data(), ranks.world(), 0, deadline, &made);
        waited_ns = steady_now() - start;
        is_back.store(true);
        return;
      }
      in_time =
          poll_unobserved(
              [&] { return is_back.load() ? keel_status{KEEL_OK} : keel_status{KEEL_NOT_READY}; },
              context.environment.wait_ns / 2) == KEEL_OK;
      (void)table.abort(ranks.comm(0));  // ends a split that knows no deadline
    });
    in_time = observe(in_time);
    status = observe_status(status);
    if (status == KEEL_UNSUPPORTED) unsupported("the library has no splits");
    if (!in_time && deadline == kShort) unsupported("the library's splits know no deadline");
    check(in_time, "ccl.split of one rank alone goes on past its deadline");
    need_be(KEEL_TIMED_OUT, status, "ccl.split of one rank alone");
    const int64_t waited = observe(waited_ns);
    check(waited >= deadline * 9 / 10,
          fmt::format("ccl.split gives up after {} of {} ns", waited, deadline));
    for (uint32_t rank = 1; rank < ranks.world(); ++rank) (void)table.abort(ranks.comm(rank));
  }
  const TableRanks next(context, devices);
  expect_works(next, "a communicator made after a split that gave up");
}

// Destroyed communicators must release all resources.
void given_back(const Context& context) {
  usual_shape(context);
  const TableDevices devices(context);
  expect_given_back(
      8,
      [&] {
        const TableRanks ranks(context, devices);
        expect_works(ranks, "one of many communicators");
      },
      "communicators that are destroyed");
}

}  // namespace

void add_ccl_order_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back(
        {"collectives/tables/" + id, capabilities | KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  add("order", keeps_its_place);
  add("returns_early", returns_early, KEEL_CAPABILITY_ASYNC);
  add("two_streams", two_streams);
  add("late_rank", late_rank);
  add("missing_rank", missing_rank);
  add("split/late_rank", late_split);
  add("split/missing_rank", lone_split);
  add("given_back", given_back);
}

}  // namespace keel::conformance
