// SPDX-License-Identifier: Apache-2.0
// Level collectives: the vendor's library behind the ccl table, through communicators whose ranks
// all use devices of the backend. Keel's own algorithms serve the calls that the library does not
// support and must be correct too: a case does not know in advance which implementation runs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <keel/thread_start.hpp>
#include <thread>

#include "conformance/collective_ranks.h"
#include "conformance/collective_values.h"
#include "conformance/harness.h"

namespace keel::conformance {

namespace {

constexpr const char* kReductionNames[KEEL_REDUCTION_COUNT] = {"sum", "prod", "min",
                                                               "max", "avg",  "premul_sum"};

// ---- operations against the reference -----------------------------------------------------

// One operation with its buffers on all ranks.
struct Run {
  // The content of rank |rank|'s send buffer, and the final content of its receive buffer; empty if
  // the rank does not send or receive.
  std::function<Bytes(uint32_t rank)> send;
  std::function<Bytes(uint32_t rank)> received;
  // For in-place calls, the offset in bytes of the send buffer in the receive buffer; or the
  // reverse if the receive buffer is shorter.
  std::function<uint64_t(uint32_t rank)> offset;
  std::function<keel_status(uint32_t rank, const void* send, void* receive)> call;
};

void run_once(const Ranks& ranks, const Run& run, bool in_place, const std::string& what) {
  std::vector<Buffer> memory;
  std::vector<Bytes> before;
  std::vector<Bytes> wanted;
  std::vector<uint64_t> receive_at;
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const Bytes sent = run.send(rank);
    const Bytes received = run.received(rank);
    // Both buffers lie in one allocation, each followed by bytes that no call may write.
    constexpr uint64_t kGap = 64;
    const uint64_t offset = in_place ? run.offset(rank) : 0;
    const bool sends_part = sent.size() <= received.size();
    const uint64_t send_at = in_place && sends_part ? offset : 0;
    receive_at.push_back(!in_place ? (sent.size() + kGap + 7) / 8 * 8 : sends_part ? 0 : offset);
    Bytes content(std::max(send_at + sent.size(), receive_at[rank] + received.size()) + kGap,
                  kRedZone);
    std::copy(sent.begin(), sent.end(), content.begin() + static_cast<std::ptrdiff_t>(send_at));
    before.push_back(content);
    std::copy(received.begin(), received.end(),
              content.begin() + static_cast<std::ptrdiff_t>(receive_at[rank]));
    wanted.push_back(std::move(content));
    memory.push_back(ranks.buffer(rank, before[rank].size()));
    ranks.stream(rank).upload(memory[rank].data(), before[rank]);
  }
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const bool sends_part = run.send(rank).size() <= run.received(rank).size();
    const uint64_t send_at = in_place && sends_part ? run.offset(rank) : 0;
    must(run.call(rank, memory[rank].at(send_at), memory[rank].at(receive_at[rank])),
         fmt::format("{} on rank {}", what, rank));
  }
  std::vector<Bytes> got;
  for (const Bytes& each : wanted) got.emplace_back(each.size());
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    ranks.stream(rank).download(got[rank], memory[rank].data());
  }
  ranks.synchronize();
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    check_equal(
        got[rank], wanted[rank],
        fmt::format("{}{}, rank {} of {}", what, in_place ? " in place" : "", rank, ranks.world()));
  }
}

void run_collective(const Context& context, keel_collective collective, keel_dtype dtype,
                    keel_reduction reduction) {
  const Ranks ranks(context);
  const uint32_t world = ranks.world();
  const uint32_t root = world - 1;
  const uint64_t element = kit::dtype_size(dtype);
  std::vector<keel_reduction> used(world, reduction);
  if (reduction == KEEL_PREMUL_SUM) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      must(keel_premul_sum_create(ranks.comm(rank), factor_of(dtype, rank), &used[rank]),
           "keel_premul_sum_create");
    }
  }
  const auto sent = [&](uint32_t rank, uint64_t first, uint64_t count) {
    return elements(dtype, first, count,
                    [&](uint64_t i) { return value_of(dtype, reduction, world, rank, i); });
  };
  const auto sum = [&](uint64_t first, uint64_t count) {
    return elements(dtype, first, count,
                    [&](uint64_t i) { return reduced(dtype, reduction, world, i); });
  };
  for (const uint64_t count : {1ULL, 1009ULL, 65'539ULL}) {
    Run run;
    run.offset = [](uint32_t) { return 0; };
    run.send = [&](uint32_t rank) { return sent(rank, 0, count); };
    std::string what;
    const auto stream = [&](uint32_t rank) { return ranks.stream(rank).get(); };
    switch (collective) {
      case KEEL_ALL_REDUCE:
        what = "keel_all_reduce";
        run.received = [&](uint32_t) { return sum(0, count); };
        run.call = [&](uint32_t rank, const void* send, void* receive) {
          return keel_all_reduce(ranks.comm(rank), send, receive, count, dtype, used[rank],
                                 stream(rank));
        };
        break;
      case KEEL_REDUCE:
        what = "keel_reduce";
        run.received = [&](uint32_t rank) { return rank == root ? sum(0, count) : Bytes(); };
        run.call = [&](uint32_t rank, const void* send, void* receive) {
          return keel_reduce(ranks.comm(rank), send, receive, count, dtype, used[rank], root,
                             stream(rank));
        };
        break;
      case KEEL_BROADCAST:
        what = "keel_broadcast";
        run.send = [&](uint32_t rank) { return rank == root ? sent(root, 0, count) : Bytes(); };
        run.received = [&](uint32_t) { return sent(root, 0, count); };
        run.call = [&](uint32_t rank, const void* send, void* receive) {
          return keel_broadcast(ranks.comm(rank), rank == root ? send : nullptr, receive, count,
                                dtype, root, stream(rank));
        };
        break;
      case KEEL_REDUCE_SCATTER:
        what = "keel_reduce_scatter";
        run.send = [&](uint32_t rank) { return sent(rank, 0, count * world); };
        run.received = [&](uint32_t rank) { return sum(rank * count, count); };
        run.offset = [&](uint32_t rank) { return rank * count * element; };
        run.call = [&](uint32_t rank, const void* send, void* receive) {
          return keel_reduce_scatter(ranks.comm(rank), send, receive, count, dtype, used[rank],
                                     stream(rank));
        };
        break;
      case KEEL_GATHER:
        what = "keel_gather";
        run.received = [&](uint32_t rank) {
          Bytes all;
          for (uint32_t peer = 0; rank == root && peer < world; ++peer) {
            const Bytes piece = sent(peer, 0, count);
            all.insert(all.end(), piece.begin(), piece.end());
          }
          return all;
        };
        run.offset = [&](uint32_t rank) { return rank == root ? rank * count * element : 0; };
        run.call = [&](uint32_t rank, const void* send, void* receive) {
          return keel_gather(ranks.comm(rank), send, rank == root ? receive : nullptr, count, dtype,
                             root, stream(rank));
        };
        break;
      case KEEL_SCATTER:
        what = "keel_scatter";
        run.send = [&](uint32_t rank) {
          return rank == root ? sent(root, 0, count * world) : Bytes();
        };
        run.received = [&](uint32_t rank) { return sent(root, rank * count, count); };
        run.offset = [&](uint32_t rank) { return rank == root ? rank * count * element : 0; };
        run.call = [&](uint32_t rank, const void* send, void* receive) {
          return keel_scatter(ranks.comm(rank), rank == root ? send : nullptr, receive, count,
                              dtype, root, stream(rank));
        };
        break;
      case KEEL_ALL_TO_ALL_V: {
        what = "keel_all_to_all_v";
        // Equal counts in both directions, so that the call also works in place.
        const auto between = [&](uint32_t one, uint32_t other) {
          return count + (one + other) % 3 - 1;
        };
        const auto offset_of = [between](uint32_t rank, uint32_t peer) {
          uint64_t offset = 0;
          for (uint32_t before = 0; before < peer; ++before) offset += between(rank, before);
          return offset;
        };
        run.send = [&, offset_of](uint32_t rank) { return sent(rank, 0, offset_of(rank, world)); };
        run.received = [&, between, offset_of](uint32_t rank) {
          Bytes all;
          for (uint32_t peer = 0; peer < world; ++peer) {
            const Bytes piece = sent(peer, offset_of(peer, rank), between(peer, rank));
            all.insert(all.end(), piece.begin(), piece.end());
          }
          return all;
        };
        run.call = [&, between, offset_of](uint32_t rank, const void* send, void* receive) {
          std::vector<uint64_t> counts;
          std::vector<uint64_t> offsets;
          for (uint32_t peer = 0; peer < world; ++peer) {
            counts.push_back(between(rank, peer));
            offsets.push_back(offset_of(rank, peer));
          }
          return keel_all_to_all_v(ranks.comm(rank), send, counts.data(), offsets.data(), receive,
                                   counts.data(), offsets.data(), dtype, stream(rank));
        };
        break;
      }
      default: {
        const bool is_gather = collective == KEEL_ALL_GATHER;
        what = is_gather ? "keel_all_gather" : "keel_all_to_all";
        if (!is_gather) run.send = [&](uint32_t rank) { return sent(rank, 0, count * world); };
        run.received = [&, is_gather](uint32_t rank) {
          Bytes all;
          for (uint32_t peer = 0; peer < world; ++peer) {
            const Bytes piece = sent(peer, is_gather ? 0 : rank * count, count);
            all.insert(all.end(), piece.begin(), piece.end());
          }
          return all;
        };
        run.offset = [&, is_gather](uint32_t rank) {
          return is_gather ? rank * count * element : 0;
        };
        run.call = [&, is_gather](uint32_t rank, const void* send, void* receive) {
          return is_gather
                     ? keel_all_gather(ranks.comm(rank), send, receive, count, dtype, stream(rank))
                     : keel_all_to_all(ranks.comm(rank), send, receive, count, dtype, stream(rank));
        };
      }
    }
    const uint64_t before = ranks.native_operations();
    run_once(ranks, run, /*in_place=*/false, fmt::format("{} of {}", what, count));
    const bool is_native = ranks.native_operations() != before;
    run_once(ranks, run, /*in_place=*/true, fmt::format("{} of {}", what, count));
    // The library's answer must hold in place or not, and for every size.
    check(ranks.native_operations() - before == (is_native ? 2 : 0),
          fmt::format("{} of {}: natively once, and once not", what, count));
  }
}

// ---- the rest -----------------------------------------------------------------------------

// Enqueues an in-place all_reduce of |count| floats on each rank.
void all_reduce(const Ranks& ranks, const std::vector<Buffer>& memory, uint64_t count) {
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    must(keel_all_reduce(ranks.comm(rank), memory[rank].data(), memory[rank].data(), count,
                         KEEL_FLOAT32, KEEL_SUM, ranks.stream(rank).get()),
         fmt::format("keel_all_reduce on rank {}", rank));
  }
}

std::vector<Buffer> allocate(const Ranks& ranks, uint64_t bytes) {
  std::vector<Buffer> memory;
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    memory.push_back(ranks.buffer(rank, bytes));
  }
  return memory;
}

// A device that reports a library must use it.
void is_used(const Context& context) {
  const Ranks ranks(context);
  const std::vector<Buffer> memory = allocate(ranks, 4096);
  all_reduce(ranks, memory, 1024);
  ranks.synchronize();
  char text[4096] = "";
  uint64_t size = sizeof(text);
  (void)keel_comm_explain(ranks.comm(0), text, &size);
  const std::string explained = observe_text(text);
  check(ranks.native_operations() == 1,
        fmt::format("CCL is claimed, but an all_reduce of float32 over {} devices does not go "
                    "through the library: {}",
                    ranks.world(), explained));
}

// A collective must keep its position between earlier and later work of the stream.
void keeps_its_place(const Context& context) {
  constexpr uint64_t kCount = 200'000;
  constexpr uint32_t kRounds = 8;
  const Ranks ranks(context);
  const std::vector<Buffer> memory = allocate(ranks, kCount * 4);
  const std::vector<Buffer> copies = allocate(ranks, kRounds * kCount * 4);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto value = static_cast<float>(round + 1);
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      ranks.stream(rank).fill(memory[rank].data(), word, kCount * 4);
    }
    all_reduce(ranks, memory, kCount);
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      ranks.stream(rank).copy(copies[rank].at(round * kCount * 4), memory[rank].data(), kCount * 4);
    }
  }
  Bytes got(kRounds * kCount * 4);
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    ranks.stream(rank).download(got, copies[rank].data());
    ranks.stream(rank).synchronize();
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto value = static_cast<float>(round + 1) * static_cast<float>(ranks.world());
      uint32_t word = 0;
      std::memcpy(&word, &value, sizeof(word));
      check_filled(std::span(got).subspan(round * kCount * 4, kCount * 4), word,
                   fmt::format("operation {} on rank {}", round, rank));
    }
  }
}

void mismatch_is_no_success(const Context& context) {
  const Ranks ranks(context);
  const std::vector<Buffer> memory = allocate(ranks, 8192);
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    must(keel_all_reduce(ranks.comm(rank), memory[rank].data(), memory[rank].data(),
                         rank == 0 ? 2048 : 1024, KEEL_FLOAT32, KEEL_SUM, ranks.stream(rank).get()),
         "keel_all_reduce");
  }
  for (const keel_status status : ranks.statuses()) {
    must_be(KEEL_INVALID_ARGUMENT, status, "an all_reduce whose counts differ");
  }
  ranks.recover();
  all_reduce(ranks, memory, 1024);
  ranks.synchronize();
}

// The call must refuse bad arguments. Each call counts as an operation, so all ranks make it and
// continue.
void bad_arguments(const Context& context) {
  const Ranks ranks(context);
  const std::vector<Buffer> memory = allocate(ranks, 4096);
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const keel_comm comm = ranks.comm(rank);
    std::byte* const data = memory[rank].data();
    const keel_stream stream = ranks.stream(rank).get();
    must_be(KEEL_INVALID_ARGUMENT,
            keel_broadcast(comm, data, data, 16, KEEL_FLOAT32, ranks.world(), stream),
            "a root beyond the world");
    must_be(KEEL_INVALID_ARGUMENT,
            keel_all_reduce(comm, data, data, 16, KEEL_DTYPE_COUNT, KEEL_SUM, stream),
            "a dtype that is none");
    must_be(KEEL_INVALID_ARGUMENT,
            keel_all_reduce(comm, data, data, 16, KEEL_FLOAT32, KEEL_REDUCTION_COUNT, stream),
            "a reduction that is none");
    check(observe_status(keel_all_reduce(comm, data, data, 1ULL << 40, KEEL_FLOAT32, KEEL_SUM,
                                         stream)) != KEEL_OK,
          "a count beyond the buffer is taken");
  }
  all_reduce(ranks, memory, 1024);
  ranks.synchronize();
}

// All ranks must return after an abort, and the devices and their library must still work. A device
// may be lost instead, where its library has no abort, and the case ends then: keel.h does not say
// what a library has, and collectives/tables/abort tests the abort of one that has it.
void abort_ends_all(const Context& context) {
  constexpr uint64_t kCount = 4 << 20;
  {
    const Ranks ranks(context);
    const std::vector<Buffer> memory = allocate(ranks, kCount * 4);
    for (int i = 0; i < 4; ++i) all_reduce(ranks, memory, kCount);
    std::jthread aborting;
    if (!judging()) {
      aborting = kit::start_thread<std::jthread>(
          "keel-conform", [&] { (void)keel_comm_abort(ranks.comm(ranks.world() - 1)); });
    }
    // Keel gives an operation of a library without an abort five seconds before the device is lost,
    // by default as long as one wait of the suite.
    const std::vector<keel_status> statuses = ranks.statuses(/*waits=*/3);
    if (aborting.joinable()) aborting.join();
    bool is_lost = false;
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      const bool gave_up = statuses[rank] == KEEL_DEVICE_LOST;
      is_lost |= gave_up;
      check(gave_up || statuses[rank] == KEEL_OK || statuses[rank] == KEEL_ABORTED,
            fmt::format("rank {} ended with {} after an abort", rank,
                        keel_status_name(statuses[rank])));
    }
    // A library that does not end its operation loses the device later than the streams ended.
    for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
      const keel_status recovered = observe_status(
          keel_stream_recover(ranks.stream(rank).get(), context.environment.wait_ns));
      is_lost |= recovered == KEEL_DEVICE_LOST;
      check(recovered == KEEL_OK || recovered == KEEL_DEVICE_LOST,
            fmt::format("keel_stream_recover of rank {}: {}", rank, keel_status_name(recovered)));
    }
    if (is_lost) return;
  }
  is_used(context);
}

// A rank does not call: the other ranks must return at their deadline.
void missing_rank(const Context& context) {
  const Ranks ranks(context);
  const std::vector<Buffer> memory = allocate(ranks, 4096);
  for (uint32_t rank = 1; rank < ranks.world(); ++rank) {
    must(keel_comm_timeout_set(ranks.comm(rank), 200'000'000), "keel_comm_timeout_set");
    must(keel_all_reduce(ranks.comm(rank), memory[rank].data(), memory[rank].data(), 1024,
                         KEEL_FLOAT32, KEEL_SUM, ranks.stream(rank).get()),
         "keel_all_reduce");
  }
  const std::vector<keel_status> statuses = ranks.statuses();
  for (uint32_t rank = 1; rank < ranks.world(); ++rank) {
    must_be(KEEL_TIMED_OUT, statuses[rank], "an all_reduce that a rank does not call");
  }
  ranks.recover();
}

}  // namespace

void add_collectives_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"collectives/" + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  add("native", is_used);
  add("order", keeps_its_place);
  add("mismatch", mismatch_is_no_success);
  add("bad_arguments", bad_arguments);
  add("abort", abort_ends_all);
  cases->back().alone = true;  // may lose the device
  add("deadline", missing_rank);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const std::string name = kit::dtype_name(dtype);
    const auto add_one = [&](const std::string& id, keel_collective collective,
                             keel_reduction reduction) {
      add(id,
          [=](const Context& context) { run_collective(context, collective, dtype, reduction); });
    };
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      add_one(fmt::format("all_reduce/{}/{}", name, kReductionNames[reduction]), KEEL_ALL_REDUCE,
              reduction);
    }
    add_one("reduce/" + name, KEEL_REDUCE, KEEL_SUM);
    add_one("reduce_scatter/" + name, KEEL_REDUCE_SCATTER, KEEL_SUM);
    add_one("broadcast/" + name, KEEL_BROADCAST, KEEL_SUM);
    add_one("all_gather/" + name, KEEL_ALL_GATHER, KEEL_SUM);
    add_one("all_to_all/" + name, KEEL_ALL_TO_ALL, KEEL_SUM);
    add_one("all_to_all_v/" + name, KEEL_ALL_TO_ALL_V, KEEL_SUM);
    add_one("gather/" + name, KEEL_GATHER, KEEL_SUM);
    add_one("scatter/" + name, KEEL_SCATTER, KEEL_SUM);
  }
}

}  // namespace keel::conformance
