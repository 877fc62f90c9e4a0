// SPDX-License-Identifier: Apache-2.0
// Level collectives, cases on the plugin's own ccl table with several ranks: creating, splitting,
// aborting and destroying communicators.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <keel/plugin_kit.hpp>

#include "conformance/collective_script.h"
#include "conformance/levels.h"
#include "conformance/table_bench.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

// ---- making -------------------------------------------------------------------------------------

void unique_ids(const Context& context) {
  constexpr uint64_t kMost = 16384;
  const keel_ccl_table& table = ccl_table_of(context);
  std::vector<Bytes> ids;
  for (int i = 0; i < 8; ++i) {
    Bytes id(kMost + 64, kRedZone);
    uint64_t size = kMost;
    need(table.unique_id(device_of(context).get(), id.data(), &size), "ccl.unique_id");
    size = observe(size);
    check(size > 0 && size <= kMost, fmt::format("ccl.unique_id gives {} bytes", size));
    observe_bytes(id);
    check(std::all_of(id.begin() + static_cast<std::ptrdiff_t>(size), id.end(),
                      [](std::byte byte) { return byte == kRedZone; }),
          fmt::format("ccl.unique_id writes behind the {} bytes that it gives", size));
    id.resize(size);
    check(std::find(ids.begin(), ids.end(), id) == ids.end(), "ccl.unique_id gives one id twice");
    check(ids.empty() || ids[0].size() == size, "ccl.unique_id gives ids of several sizes");
    ids.push_back(id);
  }
  // Exactly enough space, and one byte less.
  const uint64_t exact = ids[0].size();
  for (const uint64_t room : {exact, exact - 1}) {
    Bytes id(exact + 64, kRedZone);
    uint64_t size = room;
    const keel_status status =
        observe_status(table.unique_id(device_of(context).get(), id.data(), &size));
    check((status == KEEL_OK) == (room == exact),
          fmt::format("ccl.unique_id with room for {} of {} bytes: {}", room, exact,
                      keel_status_name(status)));
    observe_bytes(id);
    check(std::all_of(id.begin() + static_cast<std::ptrdiff_t>(room), id.end(),
                      [](std::byte byte) { return byte == kRedZone; }),
          "ccl.unique_id writes behind the room that it has");
  }
}

// Ranks in a different order than their devices; one communicator after another.
void made_again(const Context& context) {
  usual_shape(context);
  const TableDevices devices(context);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < devices.count(); ++i) order.push_back(i);
  for (uint32_t round = 0; round < 6; ++round) {
    const TableRanks ranks(context, devices, order);
    expect_works(ranks, fmt::format("communicator {}, with rank 0 on device {}", round, order[0]),
                 round);
    std::next_permutation(order.begin(), order.end());
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
  }
}

// Two communicators on the same devices, with different rank orders; the older one is destroyed
// first.
void two_at_once(const Context& context) {
  const CallShape shape = usual_shape(context);
  const TableDevices devices(context);
  std::vector<uint32_t> reversed;
  for (uint32_t i = devices.count(); i-- > 0;) reversed.push_back(i);
  TableRanks one(context, devices);
  const TableRanks other(context, devices, reversed);
  for (uint64_t round = 0; round < 4; ++round) {
    expect_works(one, "the first of two communicators", round);
    expect_works(other, "the second of two communicators", 100 + round);
  }
  // Calls of both communicators in flight; neither may wait for the other.
  const TableRanks* const both[] = {&one, &other};
  const uint64_t bytes = shape.count * 4;
  const keel_ccl_table& table = ccl_table_of(context);
  std::deque<RankMemory> memory;
  for (const TableRanks* ranks : both) {
    for (uint32_t rank = 0; rank < ranks->world(); ++rank) {
      memory.emplace_back(*ranks, rank, bytes);
      const Bytes ones = elements(KEEL_FLOAT32, 0, shape.count, [](uint64_t) { return 1; });
      ranks->upload(rank, memory.back().at(0), ones);
    }
  }
  const uint32_t world = one.world();
  one.need_all(
      [&](uint32_t rank) {
        keel_status status = KEEL_OK;
        for (uint32_t i = 0; i < 8 && status == KEEL_OK; ++i) {
          const TableRanks& ranks = i % 2 == 0 ? one : other;
          // The rank of this device's thread in either communicator.
          const uint32_t own = i % 2 == 0 ? rank : world - 1 - rank;
          keel_ccl_call call = call_of(shape, rank);
          call.send = call.receive = memory[(i % 2) * world + own].at(0);
          status = table.run(ranks.comm(own), ranks.stream(own), &call, 1);
        }
        return status;
      },
      "calls of two communicators by turns");
  const int64_t each =
      shape.collective == KEEL_ALL_REDUCE ? int64_t{world} * world * world * world : 1;
  const Bytes wanted = elements(KEEL_FLOAT32, 0, shape.count, [&](uint64_t) { return each; });
  for (const TableRanks* ranks : both) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      need(ranks->settle(rank), "calls of two communicators by turns");
      const size_t at = (ranks == &one ? 0 : world) + rank;
      check_equal(ranks->download(rank, memory[at].at(0), bytes), wanted,
                  "calls of two communicators by turns");
    }
  }
  one.destroy();
  expect_works(other, "a communicator whose like was destroyed", 7);
}

// ---- splits -------------------------------------------------------------------------------------

// |ranks_of|(rank) lists the ranks of the part that contains the rank. The case uses each part,
// finally after destroying the whole communicator.
void split_into(
    const Context& context, const std::string& what,
    const std::function<std::vector<uint32_t>(uint32_t rank, uint32_t world)>& ranks_of) {
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, split))) unsupported("there is no ccl.split");
  usual_shape(context);
  const TableDevices devices(context);
  TableRanks whole(context, devices);
  const uint32_t world = whole.world();
  auto* const sentinel = reinterpret_cast<keel_plugin_comm*>(uintptr_t{0x1230});
  std::vector<keel_plugin_comm*> made(world, sentinel);
  const std::vector<keel_status> statuses = whole.call_all([&](uint32_t rank) {
    const std::vector<uint32_t> part = ranks_of(rank, world);
    const auto own = std::find(part.begin(), part.end(), rank) - part.begin();
    return table.split(whole.comm(rank), part.data(), static_cast<uint32_t>(part.size()),
                       part.empty() ? 0 : static_cast<uint32_t>(own), context.environment.wait_ns,
                       &made[rank]);
  });
  if (std::all_of(statuses.begin(), statuses.end(),
                  [](keel_status status) { return status == KEEL_UNSUPPORTED; })) {
    unsupported("the library has no splits");
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    check(statuses[rank] == KEEL_OK, fmt::format("ccl.split into {}, rank {}: {}", what, rank,
                                                 keel_status_name(statuses[rank])));
    const bool has_part = observe(made[rank] != nullptr && made[rank] != sentinel);
    const bool is_null = observe(made[rank] == nullptr);
    const bool wants_part = !ranks_of(rank, world).empty();
    check(wants_part ? has_part : is_null,
          fmt::format("ccl.split into {} gives rank {} {}", what, rank,
                      wants_part ? "no communicator" : "one, and it is in no part"));
  }
  std::deque<TableRanks> parts;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const std::vector<uint32_t> part = ranks_of(rank, world);
    if (part.empty() || part[0] != rank) continue;
    std::vector<keel_plugin_comm*> comms;
    for (const uint32_t member : part) comms.push_back(made[member]);
    parts.emplace_back(context, devices, part, comms);
  }
  for (const TableRanks& part : parts) expect_works(part, "a part of " + what, 1);
  expect_works(whole, "the whole of " + what, 2);
  whole.destroy();
  for (const TableRanks& part : parts) {
    expect_works(part, "a part of " + what + " that has outlived the whole", 3);
  }
}

// Splits a part again.
void split_again(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, split))) unsupported("there is no ccl.split");
  usual_shape(context);
  const TableDevices devices(context);
  std::deque<TableRanks> all;
  all.emplace_back(context, devices);
  for (uint32_t depth = 0; depth < 3; ++depth) {
    const TableRanks& whole = all.back();
    const uint32_t world = whole.world();
    std::vector<uint32_t> reversed;
    std::vector<uint32_t> order;
    for (uint32_t i = world; i-- > 0;) {
      reversed.push_back(i);
      order.push_back(whole.device_index(i));
    }
    std::vector<keel_plugin_comm*> made(world, nullptr);
    const std::vector<keel_status> statuses = whole.call_all([&](uint32_t rank) {
      return table.split(whole.comm(rank), reversed.data(), world, world - 1 - rank,
                         context.environment.wait_ns, &made[rank]);
    });
    for (const keel_status status : statuses) {
      if (status == KEEL_UNSUPPORTED) unsupported("the library has no splits");
      need(status, "ccl.split of a part");
    }
    std::reverse(made.begin(), made.end());
    all.emplace_back(context, devices, order, made);
    expect_works(all.back(), fmt::format("a part of a part, {} deep", depth + 1), depth);
    if (depth == 1) all.front().destroy();
  }
}

// ---- errors and ends ---------------------------------------------------------------------------

void need_healthy(const TableRanks& ranks, const std::string& when,
                  Where where = Where::current()) {
  const keel_ccl_table& table = ccl_table_of(ranks.context());
  if (!observe(KEEL_HAS(keel_ccl_table, &table, async_error), where)) return;
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    need(table.async_error(ranks.comm(rank)), fmt::format("ccl.async_error {}", when), where);
  }
}

// async_error must report no error, also while operations run.
void healthy(const Context& context) {
  const CallShape shape = usual_shape(context, 65'537);
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  need_healthy(ranks, "of a new communicator");
  for (uint64_t round = 0; round < 4; ++round) {
    Script script(ranks.world());
    script.add(shape, round);
    script.add(shape, 100 + round);
    script.play(ranks, "collectives");
    need_healthy(ranks, "behind collectives");
  }
}

// Ranks wait for a rank that never calls; an abort from another thread must end their streams,
// which nothing else ends. A second abort is harmless, and the next communicator works.
void abort_ends_waiting(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, abort))) unsupported("there is no ccl.abort");
  const CallShape shape = usual_shape(context);
  const TableDevices devices(context);
  const TableRanks other(context, devices);
  {
    const TableRanks ranks(context, devices);
    expect_works(ranks, "before an abort");
    std::deque<RankMemory> memory;
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      memory.emplace_back(ranks, rank, shape.count * 4);
    }
    const uint32_t missing = ranks.world() - 1;
    ranks.need_all(
        [&](uint32_t rank) {
          if (rank == missing) return keel_status{KEEL_OK};
          keel_ccl_call call = call_of(shape, rank);
          call.root = static_cast<int32_t>(missing);
          call.send = call.receive = memory[rank].at(0);
          return table.run(ranks.comm(rank), ranks.stream(rank), &call, 1);
        },
        "a collective that one rank does not call");
    for (int round = 0; round < 2; ++round) {
      ranks.need_all([&](uint32_t rank) { return table.abort(ranks.comm(rank)); },
                     round == 0 ? "ccl.abort" : "a second ccl.abort");
    }
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      check(ranks.settle(rank) != KEEL_NOT_READY,
            fmt::format("what was aborted does not end on rank {}", rank));
    }
  }
  expect_works(other, "a communicator beside one that was aborted");
  const TableRanks next(context, devices);
  expect_works(next, "a communicator made after an abort");
  need_healthy(next, "of a communicator made after an abort");
}

// A rank splits its communicator, and the others never do: an abort ends the call, before its time
// is over.
void abort_ends_split(const Context& context) {
  constexpr int64_t kHeadStart = 50'000'000;
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, abort) &&
               KEEL_HAS(keel_ccl_table, &table, split))) {
    unsupported("there is no ccl.abort, or no ccl.split");
  }
  usual_shape(context);
  const TableDevices devices(context);
  {
    const TableRanks ranks(context, devices);
    const uint32_t world = ranks.world();
    const std::vector<uint32_t> all = ranks.all();
    keel_plugin_comm* made = nullptr;
    const std::vector<keel_status> statuses = ranks.call_all([&](uint32_t rank) {
      if (rank == 0) {
        return table.split(ranks.comm(0), all.data(), world, 0, context.environment.wait_ns / 2,
                           &made);
      }
      if (rank != world - 1) return keel_status{KEEL_OK};
      pause_ns(kHeadStart);
      return table.abort(ranks.comm(0));
    });
    if (statuses[0] == KEEL_UNSUPPORTED) unsupported("the library has no splits");
    need(statuses[world - 1], "ccl.abort of a rank that splits");
    check(statuses[0] != KEEL_OK && statuses[0] != KEEL_TIMED_OUT,
          fmt::format("ccl.split of one rank alone, which was aborted: {}",
                      keel_status_name(statuses[0])));
    ranks.need_all([&](uint32_t rank) { return table.abort(ranks.comm(rank)); }, "ccl.abort");
  }
  const TableRanks next(context, devices);
  expect_works(next, "a communicator made after a split that was aborted");
}

// One rank aborts, and then the others call. A library need not notice, and then their calls wait
// until they abort, too. Where it does notice and refuses the calls, async_error gives the failure.
void one_rank_aborts(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, abort) &&
               KEEL_HAS(keel_ccl_table, &table, async_error))) {
    unsupported("there is no ccl.abort, or no ccl.async_error");
  }
  const CallShape shape = usual_shape(context);
  const TableDevices devices(context);
  {
    const TableRanks ranks(context, devices);
    expect_works(ranks, "before one rank aborts");
    std::deque<RankMemory> memory;
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      memory.emplace_back(ranks, rank, shape.count * 4);
    }
    const uint32_t gone = ranks.world() - 1;
    need(table.abort(ranks.comm(gone)), "ccl.abort of one rank");
    const std::vector<keel_status> called = ranks.call_all([&](uint32_t rank) {
      if (rank == gone) return keel_status{KEEL_OK};
      keel_ccl_call call = call_of(shape, rank);
      call.root = static_cast<int32_t>(gone);
      call.send = call.receive = memory[rank].at(0);
      return table.run(ranks.comm(rank), ranks.stream(rank), &call, 1);
    });
    for (uint32_t rank = 0; rank < gone; ++rank) {
      const keel_status error = observe_status(table.async_error(ranks.comm(rank)));
      check(called[rank] == KEEL_OK || error != KEEL_OK,
            fmt::format("rank {} of a communicator with an aborted rank refuses calls with {}, and "
                        "ccl.async_error gives no failure",
                        rank, keel_status_name(called[rank])));
      if (error != KEEL_OK) {
        need_be(error, table.async_error(ranks.comm(rank)), "ccl.async_error, asked again");
      }
    }
    ranks.need_all([&](uint32_t rank) { return table.abort(ranks.comm(rank)); }, "ccl.abort");
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      check(ranks.settle(rank) != KEEL_NOT_READY,
            fmt::format("what was aborted does not end on rank {}", rank));
    }
  }
  const TableRanks next(context, devices);
  expect_works(next, "a communicator made after one rank aborted");
}

// Buffers may be registered, also twice and in part, and used before, during and after
// registration.
void registered_buffers(const Context& context) {
  const keel_ccl_table& table = ccl_table_of(context);
  if (!observe(KEEL_HAS(keel_ccl_table, &table, register_buffer) &&
               KEEL_HAS(keel_ccl_table, &table, deregister_buffer))) {
    unsupported("there is no ccl.register_buffer");
  }
  const CallShape shape = usual_shape(context, 16'384);
  const uint64_t bytes = shape.count * 4;
  const TableDevices devices(context);
  const TableRanks ranks(context, devices);
  std::deque<RankMemory> memory;
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) memory.emplace_back(ranks, rank, 2 * bytes);
  std::vector<void*> whole(ranks.world(), nullptr);
  std::vector<void*> part(ranks.world(), nullptr);
  const auto add = [&](uint64_t from, uint64_t size, std::vector<void*>* out) {
    return ranks.call_all([&, from, size, out](uint32_t rank) {
      return table.register_buffer(ranks.comm(rank), memory[rank].at(from), size, &(*out)[rank]);
    });
  };
  const auto run = [&](const std::string& what) {
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      ranks.upload(rank, memory[rank].at(bytes / 2),
                   elements(KEEL_FLOAT32, 0, shape.count, [&](uint64_t i) {
                     return static_cast<int64_t>(i % 777) * (rank + 1);
                   }));
    }
    ranks.need_all(
        [&](uint32_t rank) {
          keel_ccl_call call = call_of(shape, rank);
          call.send = call.receive = memory[rank].at(bytes / 2);
          return table.run(ranks.comm(rank), ranks.stream(rank), &call, 1);
        },
        what);
    const uint32_t times =
        shape.collective == KEEL_ALL_REDUCE ? ranks.world() * (ranks.world() + 1) / 2 : 1;
    const Bytes wanted = elements(KEEL_FLOAT32, 0, shape.count, [&](uint64_t i) {
      return static_cast<int64_t>(i % 777) * times;
    });
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      need(ranks.settle(rank), what);
      check_equal(ranks.download(rank, memory[rank].at(bytes / 2), bytes), wanted, what);
    }
  };
  run("a collective before its buffers are registered");
  for (const keel_status status : add(0, 2 * bytes, &whole)) {
    if (status == KEEL_UNSUPPORTED) unsupported("the library registers no buffers");
    need(status, "ccl.register_buffer");
  }
  run("a collective in registered buffers");
  for (const keel_status status : add(bytes / 2, bytes, &part)) {
    need(status, "ccl.register_buffer of a part of what is registered");
  }
  run("a collective in buffers that are registered twice");
  ranks.need_all(
      [&](uint32_t rank) { return table.deregister_buffer(ranks.comm(rank), part[rank]); },
      "ccl.deregister_buffer");
  run("a collective in buffers that are registered once more");
  ranks.need_all(
      [&](uint32_t rank) { return table.deregister_buffer(ranks.comm(rank), whole[rank]); },
      "ccl.deregister_buffer");
  run("a collective in buffers that are registered no more");
}

}  // namespace

void add_ccl_lifetime_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"collectives/tables/" + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  using Ranks = std::vector<uint32_t>;
  const auto add_split = [&](const std::string& id, const std::string& what, auto ranks_of) {
    add("split/" + id,
        [what, ranks_of](const Context& context) { split_into(context, what, ranks_of); });
  };
  cases->push_back({std::string(kOneRank) + "unique_id", KEEL_CAPABILITY_CCL, false, unique_ids});
  add("made_again", made_again);
  add("two_at_once", two_at_once);
  add_split("same", "all ranks in their order", [](uint32_t, uint32_t world) {
    Ranks all;
    for (uint32_t i = 0; i < world; ++i) all.push_back(i);
    return all;
  });
  add_split("reversed", "all ranks in reverse", [](uint32_t, uint32_t world) {
    Ranks all;
    for (uint32_t i = world; i-- > 0;) all.push_back(i);
    return all;
  });
  add_split("single", "single ranks", [](uint32_t rank, uint32_t) { return Ranks{rank}; });
  add_split("but_one", "all ranks but one", [](uint32_t rank, uint32_t world) {
    Ranks most;
    for (uint32_t i = 1; rank != 0 && i < world; ++i) most.push_back(i);
    return most;
  });
  add_split("last", "the last rank alone", [](uint32_t rank, uint32_t world) {
    return rank == world - 1 ? Ranks{rank} : Ranks{};
  });
  add_split("odd_and_even", "odd and even ranks, in reverse", [](uint32_t rank, uint32_t world) {
    Ranks half;
    for (uint32_t i = world; i-- > 0;) {
      if (i % 2 == rank % 2) half.push_back(i);
    }
    return half;
  });
  add("split/again", split_again);
  add("healthy", healthy);
  add("abort", abort_ends_waiting);
  add("abort_of_a_split", abort_ends_split);
  add("abort_of_one_rank", one_rank_aborts);
  add("registered", registered_buffers);
}

}  // namespace keel::conformance
