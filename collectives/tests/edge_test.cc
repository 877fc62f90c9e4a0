// SPDX-License-Identifier: Apache-2.0
// Corner cases of the collectives: two threads on one communicator, more than 2^32 elements, memory
// of a different device, factors outside a dtype.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint32_t kWorld = 2;

class CollectiveEdges : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_KEEL_OK(keel::testing::init_test_devices(kWorld)); }
  static void TearDownTestSuite() { EXPECT_KEEL_OK(keel_shutdown()); }

  void SetUp() override {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_device_get(rank, &devices_[rank]));
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams_[rank]));
    }
    ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), kWorld, nullptr, comms_.data()));
  }
  void TearDown() override {
    for (keel_comm comm : comms_) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    for (keel_stream stream : streams_) keel_stream_destroy(stream);
    for (const auto& [device, pointer] : memory_) keel_free(device, pointer);
  }
  // Whether the host accesses the devices' memory in place.
  bool has_host_alias() {
    auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    void* const pointer = allocate(0, 64);
    EXPECT_KEEL_OK(keel_memory_find(devices_[0], pointer, &info));
    return info.host_alias == pointer;
  }
  void* allocate(uint32_t rank, uint64_t bytes) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc(devices_[rank], KEEL_MEMORY_DEVICE, bytes, &pointer));
    memory_.emplace_back(devices_[rank], pointer);
    return pointer;
  }

  std::array<keel_device, kWorld> devices_;
  std::array<keel_stream, kWorld> streams_;
  std::array<keel_comm, kWorld> comms_;
  std::vector<std::pair<keel_device, void*>> memory_;
};

// Either both ranks receive the calls of the two threads in the same order, and the calls work, or
// the orders differ, and the calls mismatch.
TEST_F(CollectiveEdges, TwoThreadsOnOneCommunicatorGetAnOrderOrAMismatch) {
  constexpr uint32_t kThreads = 2;
  constexpr uint32_t kRounds = 100;
  struct One {
    keel_stream stream;
    void* data;
  };
  std::array<std::array<One, kWorld>, kThreads> all;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      One& one = all[thread][rank];
      one.data = allocate(rank, 4096);
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &one.stream));
    }
  }
  uint32_t agreed = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint32_t rank = 0; rank < kWorld; ++rank) {
          const One& one = all[thread][rank];
          EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], one.data, one.data, 10 + thread, KEEL_INT32,
                                         KEEL_MAX, one.stream));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint32_t good = 0;
    for (const auto& ranks : all) {
      for (const One& one : ranks) {
        const keel_status status = keel_stream_synchronize(one.stream, KEEL_TIMEOUT_DEFAULT);
        if (status == KEEL_OK) {
          ++good;
          continue;
        }
        EXPECT_EQ(status, KEEL_INVALID_ARGUMENT) << keel_last_error();
        EXPECT_NE(std::string(keel_last_error()).find("mismatch"), std::string::npos);
        EXPECT_KEEL_OK(keel_stream_recover(one.stream, KEEL_TIMEOUT_DEFAULT));
      }
    }
    EXPECT_TRUE(good == 0 || good == kThreads * kWorld) << good << " of 4 worked";
    agreed += good == 0 ? 0 : 1;
  }
  std::printf("%u of %u rounds had one order\n", agreed, kRounds);
  for (const auto& ranks : all) {
    for (const One& one : ranks) keel_stream_destroy(one.stream);
  }
}

// Equal calls work in any order: each matches one call of the peer, without data of a third call.
TEST_F(CollectiveEdges, TwoThreadsThatCallAlikeGetWholeResults) {
  constexpr int kThreads = 3;
  constexpr int kCalls = 400;
  constexpr uint32_t kCount = 64;
  if (!has_host_alias()) GTEST_SKIP() << "small operations are not tried within the call here";
  std::atomic<int> torn = 0;
  std::atomic<int> without_own = 0;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    for (int thread = 0; thread < kThreads; ++thread) {
      auto* const data = static_cast<int64_t*>(allocate(rank, kCount * sizeof(int64_t)));
      threads.emplace_back([&, rank, thread, data] {
        keel_stream stream;
        EXPECT_KEEL_OK(keel_stream_create(devices_[rank], 0, &stream));
        for (int call = 0; call < kCalls; ++call) {
          const int64_t own = call * kThreads + thread + 1;
          std::fill_n(data, kCount, rank == 0 ? own : own << 32);
          EXPECT_KEEL_OK(
              keel_all_reduce(comms_[rank], data, data, kCount, KEEL_INT64, KEEL_SUM, stream));
          EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
          if (std::any_of(data, data + kCount, [&](int64_t each) { return each != data[0]; }))
            ++torn;
          if ((rank == 0 ? data[0] & 0xffffffff : data[0] >> 32) != own) ++without_own;
        }
        keel_stream_destroy(stream);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(without_own, 0);
}

// The peers read the arrays even of a rank without data to send.
TEST_F(CollectiveEdges, ARankThatSendsNothingKeepsItsArraysUntilTheyAreRead) {
  constexpr uint64_t kMost = 1 << 18;
  std::array<std::array<void*, 2>, kWorld> buffers;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    for (void*& buffer : buffers[rank]) buffer = allocate(rank, kMost * kWorld);
  }
  for (int round = 0; round < 20; ++round) {
    for (const uint64_t sent : {uint64_t{0}, kMost}) {
      for (uint32_t rank = 0; rank < kWorld; ++rank) {
        const uint64_t from_first[kWorld] = {sent, sent};
        const uint64_t from_second[kWorld] = {kMost, kMost};
        const uint64_t receives[kWorld] = {sent, kMost};
        const uint64_t offsets[kWorld] = {0, kMost};
        EXPECT_KEEL_OK(keel_all_to_all_v(
            comms_[rank], buffers[rank][0], rank == 0 ? from_first : from_second, offsets,
            buffers[rank][1], receives, offsets, KEEL_UINT8, streams_[rank]));
      }
    }
  }
  for (keel_stream stream : streams_) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  }
}

TEST_F(CollectiveEdges, ExchangesThatOverlapOtherThanInPlaceAreRefused) {
  auto* const data = static_cast<char*>(allocate(0, 4096));
  const uint64_t counts[kWorld] = {100, 100};
  const uint64_t offsets[kWorld] = {0, 100};
  const uint64_t turned[kWorld] = {100, 0};
  const uint64_t shifted[kWorld] = {4, 104};
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap",
               keel_all_to_all_v(comms_[0], data, counts, offsets, data, counts, turned, KEEL_UINT8,
                                 streams_[0]));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap",
               keel_all_to_all_v(comms_[0], data + 4, counts, offsets, data, counts, shifted,
                                 KEEL_UINT8, streams_[0]));
}

TEST_F(CollectiveEdges, AnExchangeThatDoesNotFitWithItselfIsRefusedAndItGoesOn) {
  std::array<char*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    data[rank] = static_cast<char*>(allocate(rank, 4096));
  }
  const uint64_t counts[kWorld] = {100, 100};
  const uint64_t fewer[kWorld] = {90, 100};
  const uint64_t offsets[kWorld] = {0, 100};
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send_counts[0] is 100, receive_counts[0] is 90",
               keel_all_to_all_v(comms_[0], data[0], counts, offsets, data[0] + 2048, fewer,
                                 offsets, KEEL_UINT8, streams_[0]));
  EXPECT_KEEL_OK(keel_all_to_all_v(comms_[1], data[1], counts, offsets, data[1] + 2048, counts,
                                   offsets, KEEL_UINT8, streams_[1]));
  EXPECT_FAILS(KEEL_RANK_FAILED, "receive_counts[0] is 90",
               keel_stream_synchronize(streams_[1], KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_stream_recover(streams_[1], KEEL_TIMEOUT_DEFAULT));
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_all_to_all_v(comms_[rank], data[rank], counts, offsets, data[rank] + 2048,
                                     counts, offsets, KEEL_UINT8, streams_[rank]));
  }
  for (keel_stream stream : streams_) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  }
}

// Only the two ranks can find the mismatch, once all ranks have called.
TEST_F(CollectiveEdges, AnExchangeThatDoesNotFitAnothersNamesBoth) {
  const uint64_t counts[kWorld] = {100, 100};
  const uint64_t fewer[kWorld] = {90, 100};
  const uint64_t offsets[kWorld] = {0, 100};
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    auto* const data = static_cast<char*>(allocate(rank, 4096));
    EXPECT_KEEL_OK(keel_all_to_all_v(comms_[rank], data, counts, offsets, data + 2048,
                                     rank == 1 ? fewer : counts, offsets, KEEL_UINT8,
                                     streams_[rank]));
  }
  for (keel_stream stream : streams_) {
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "rank 0 sends 100 elements to rank 1, which receives 90",
                 keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  }
}

// Calls in a group are unordered: each rank may name the communicators in any order.
TEST_F(CollectiveEdges, AGroupOverTwoCommunicatorsHasNoOrder) {
  std::array<keel_comm, kWorld> others;
  ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), kWorld, nullptr, others.data()));
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = allocate(rank, 400);
    EXPECT_KEEL_OK(keel_group_start());
    for (uint32_t turn = 0; turn < 2; ++turn) {
      const keel_comm comm = turn == rank ? comms_[rank] : others[rank];
      EXPECT_KEEL_OK(keel_all_reduce(comm, data, data, 100, KEEL_INT32, KEEL_MAX, streams_[rank]));
    }
    EXPECT_KEEL_OK(keel_group_end());
  }
  for (keel_stream stream : streams_) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kSecond * 10));
  }
  for (keel_comm comm : others) EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

// The first operation of each rank waits for a gate; only the outermost end enqueues calls.
TEST_F(CollectiveEdges, AGroupWithinAGroupEndsWithTheOuterOne) {
  auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  EXPECT_KEEL_OK(keel_group_start());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = allocate(rank, 400);
    EXPECT_KEEL_OK(keel_group_start());
    EXPECT_KEEL_OK(keel_send_recv(comms_[rank], data, 50, 1 - rank, static_cast<char*>(data) + 200,
                                  50, 1 - rank, KEEL_INT32, streams_[rank]));
    EXPECT_KEEL_OK(keel_group_end());
  }
  // A thread that waits inside a group gets an error: the group is open.
  std::thread([&] {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_KEEL_OK(keel_comm_finalize(comms_[rank], kSecond * 10));
      EXPECT_KEEL_OK(keel_comm_stats_get(comms_[rank], &stats));
      EXPECT_EQ(stats.operations, 0u) << "rank " << rank;
    }
  }).join();
  EXPECT_KEEL_OK(keel_group_end());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], kSecond * 10));
    EXPECT_KEEL_OK(keel_comm_stats_get(comms_[rank], &stats));
    EXPECT_EQ(stats.operations, 1u) << "rank " << rank;
  }
}

TEST_F(CollectiveEdges, AGroupThatWasNotStartedDoesNotEnd) {
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "keel_group_start", keel_group_end());
  EXPECT_KEEL_OK(keel_group_start());
  EXPECT_KEEL_OK(keel_group_end());
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "keel_group_start", keel_group_end());
}

TEST_F(CollectiveEdges, FinalizeWaitsForWhatTheRankHasEnqueued) {
  keel_gate gate;
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = allocate(rank, 400);
    EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[rank], gate));
    EXPECT_KEEL_OK(
        keel_all_reduce(comms_[rank], data, data, 100, KEEL_INT32, KEEL_MAX, streams_[rank]));
  }
  EXPECT_EQ(keel_comm_finalize(comms_[0], kSecond / 50), KEEL_TIMED_OUT) << keel_last_error();
  EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_comm_finalize(comms_[rank], kSecond * 10));
    EXPECT_KEEL_OK(keel_comm_stats_get(comms_[rank], &stats));
    EXPECT_EQ(stats.operations, 1u);
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], kSecond * 10));
  }
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
}

TEST_F(CollectiveEdges, AMessageServesMemoryThatIsFreedBehindIt) {
  const std::vector<char> pattern(4096, 'k');
  std::vector<char> result(4096);
  for (const bool in_stream_order : {false, true}) {
    SCOPED_TRACE(in_stream_order);
    void* const sent = allocate(0, 4096);
    void* const received = allocate(1, 4096);
    EXPECT_KEEL_OK(keel_copy(streams_[0], devices_[0], sent, KEEL_HOST, pattern.data(), 4096));
    keel_gate gate;
    ASSERT_KEEL_OK(keel_gate_create(&gate));
    EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[0], gate));
    EXPECT_KEEL_OK(keel_send(comms_[0], sent, 4096, KEEL_UINT8, 1, streams_[0]));
    EXPECT_KEEL_OK(keel_recv(comms_[1], received, 4096, KEEL_UINT8, 0, streams_[1]));
    EXPECT_KEEL_OK(in_stream_order ? keel_free_on_stream(streams_[0], sent)
                                   : keel_free(devices_[0], sent));
    memory_.erase(memory_.end() - 2);
    EXPECT_KEEL_OK(keel_copy(streams_[1], KEEL_HOST, result.data(), devices_[1], received, 4096));
    EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
    for (keel_stream stream : streams_) {
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
    }
    EXPECT_EQ(result, pattern);
    EXPECT_KEEL_OK(keel_gate_destroy(gate));
    std::fill(result.begin(), result.end(), '\0');
  }
}

TEST_F(CollectiveEdges, MemoryOfAnotherDeviceIsRefused) {
  void* const data[kWorld] = {allocate(0, 400), allocate(1, 400)};
  if (data[0] == data[1]) GTEST_SKIP() << "the two devices use the same addresses";
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const uint32_t other = 1 - rank;
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send",
                 keel_all_reduce(comms_[rank], data[other], data[rank], 100, KEEL_INT32, KEEL_SUM,
                                 streams_[rank]));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive",
                 keel_all_reduce(comms_[rank], data[rank], data[other], 100, KEEL_INT32, KEEL_SUM,
                                 streams_[rank]));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive",
                 keel_send_recv(comms_[rank], data[rank], 100, other, data[other], 100, other,
                                KEEL_INT32, streams_[rank]));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "stream", keel_barrier(comms_[rank], streams_[other]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data[rank], data[rank], 100, KEEL_INT32, KEEL_SUM,
                                   streams_[rank]));
  }
  for (keel_stream stream : streams_) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  }
}

// Unordered messages must not overlap. A refused message is reported to the peer, and the rest of
// the group runs.
TEST_F(CollectiveEdges, MessagesOfAGroupThatOverlapAreRefusedAndNamed) {
  constexpr uint64_t kCount = 100;
  std::array<int32_t*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    data[rank] = static_cast<int32_t*>(allocate(rank, 4 * kCount * sizeof(int32_t)));
    EXPECT_KEEL_OK(keel_fill(streams_[rank], data[rank], &rank, 4, 4 * kCount * sizeof(int32_t)));
  }
  const auto send = [&](uint32_t rank, int32_t* from, uint64_t count) {
    return keel_send(comms_[rank], from, count, KEEL_INT32, 1 - rank, streams_[rank]);
  };
  const auto receive = [&](uint32_t rank, int32_t* to, uint64_t count) {
    return keel_recv(comms_[rank], to, count, KEEL_INT32, 1 - rank, streams_[rank]);
  };
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
               "the receive of 100 int32 from rank 1 overlaps the send of 100 int32 to rank 1",
               keel_send_recv(comms_[0], data[0], kCount, 1, data[0] + kCount - 1, kCount, 1,
                              KEEL_INT32, streams_[0]));
  EXPECT_FAILS(
      KEEL_INVALID_ARGUMENT, "overlaps",
      keel_send_recv(comms_[1], data[1], kCount, 0, data[1], kCount, 0, KEEL_INT32, streams_[1]));
  EXPECT_KEEL_OK(keel_group_start());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const std::string peer = std::to_string(1 - rank);
    int32_t* const own = data[rank];
    EXPECT_KEEL_OK(send(rank, own, kCount));
    EXPECT_KEEL_OK(send(rank, own + kCount / 2, kCount));  // sources may overlap
    EXPECT_KEEL_OK(receive(rank, own + 2 * kCount, kCount));
    EXPECT_KEEL_OK(receive(rank, own + 3 * kCount, kCount));  // they may touch
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the receive of 1 int32 from rank " + peer + " overlaps the send of 100 int32",
                 receive(rank, own + kCount + kCount / 2 - 1, 1));
    EXPECT_KEEL_OK(send(rank, own, 1));  // to the peer, with the same refusal there
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the receive of 400 int32 from rank " + peer + " overlaps the send of 100 int32",
                 receive(rank, own, 4 * kCount));
    EXPECT_KEEL_OK(send(rank, own, 1));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the receive of 50 int32 from rank " + peer + " overlaps the receive of 100 int32",
                 receive(rank, own + 3 * kCount - 1, 50));
    EXPECT_KEEL_OK(send(rank, own, 1));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "the send of 3 int32 to rank " + peer + " overlaps the receive of 100 int32",
                 send(rank, own + 2 * kCount - 2, 3));
    EXPECT_KEEL_OK(receive(rank, own + 3 * kCount, 0));  // an empty range overlaps no range
    // One message of the pair is valid: neither is accepted.
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlaps the receive of 100 int32",
                 keel_send_recv(comms_[rank], own, 1, 1 - rank, own + 2 * kCount, 1, 1 - rank,
                                KEEL_INT32, streams_[rank]));
    EXPECT_KEEL_OK(receive(rank, own + 3 * kCount, 0));
    EXPECT_KEEL_OK(send(rank, own + 3 * kCount, 0));
  }
  EXPECT_KEEL_OK(keel_group_end());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_FAILS(KEEL_RANK_FAILED, "was refused there: KEEL_INVALID_ARGUMENT",
                 keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    std::array<uint32_t, 4 * kCount> values;
    EXPECT_KEEL_OK(keel_copy(streams_[rank], KEEL_HOST, values.data(), devices_[rank], data[rank],
                             sizeof(values)));
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], i < 2 * kCount ? rank : 1 - rank) << "rank " << rank << ", " << i;
    }
  }
}

// Two streams of a rank make two operations, the second after the first.
TEST_F(CollectiveEdges, MessagesOfTwoStreamsOfAGroupMayOverlap) {
  keel_stream others[kWorld] = {};
  void* data[kWorld] = {};
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &others[rank]));
    data[rank] = allocate(rank, 400);
  }
  EXPECT_KEEL_OK(keel_group_start());
  EXPECT_KEEL_OK(keel_send(comms_[0], data[0], 100, KEEL_INT32, 1, streams_[0]));
  EXPECT_KEEL_OK(keel_recv(comms_[0], data[0], 100, KEEL_INT32, 1, others[0]));
  EXPECT_KEEL_OK(keel_recv(comms_[1], data[1], 100, KEEL_INT32, 0, streams_[1]));
  EXPECT_KEEL_OK(keel_send(comms_[1], data[1], 100, KEEL_INT32, 0, others[1]));
  EXPECT_KEEL_OK(keel_group_end());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_stream_synchronize(others[rank], KEEL_TIMEOUT_DEFAULT));
    keel_stream_destroy(others[rank]);
  }
}

TEST_F(CollectiveEdges, AFactorThatTheDtypeHasNotIsRefused) {
  void* const data = allocate(0, 400);
  for (const double factor : {0.5, std::nan(""), 0x1p64, -double{INFINITY}}) {
    keel_reduction reduction = 0;
    ASSERT_KEEL_OK(keel_premul_sum_create(comms_[0], factor, &reduction));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "factor",
                 keel_all_reduce(comms_[0], data, data, 100, KEEL_INT32, reduction, streams_[0]));
  }
  // A reduction number belongs to one communicator.
  keel_reduction reduction = 0;
  ASSERT_KEEL_OK(keel_premul_sum_create(comms_[0], 3, &reduction));
  void* const other = allocate(1, 400);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "reduction",
               keel_all_reduce(comms_[1], other, other, 100, KEEL_INT32, reduction, streams_[1]));
}

[[maybe_unused]] uint64_t available_gigabytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes >> unit) {
    if (name == "MemAvailable:") return kilobytes >> 20;
  }
  return 0;
}

TEST_F(CollectiveEdges, MoreElementsThan32BitsCount) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs several times the memory";
#else
  if (keel::testing::test_backend() != "cpu" || std::getenv("KEEL_CPU_GUARD") != nullptr ||
      std::getenv("KEEL_VALIDATE") != nullptr) {
    GTEST_SKIP() << "needs 4 GiB that the host reaches; once is enough";
  }
  if (available_gigabytes() < 8) {
    GTEST_SKIP() << "only " << available_gigabytes() << " GiB of memory available, not 8";
  }
  constexpr uint64_t kElements = (uint64_t{1} << 31) + 5;
  const auto expected = [](uint64_t i) { return static_cast<uint8_t>((i >> 12) % 100 + 3); };
  std::array<uint8_t*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const memory = allocate(rank, kElements);
    auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    ASSERT_KEEL_OK(keel_memory_find(devices_[rank], memory, &info));
    ASSERT_NE(info.host_alias, nullptr);
    data[rank] = static_cast<uint8_t*>(info.host_alias);
    // By pages: (i >> 12) % 100 of rank 0, and 3 of rank 1.
    for (uint64_t i = 0; i < kElements; i += 4096) {
      std::memset(data[rank] + i, rank == 0 ? expected(i) - 3 : 3,
                  std::min<uint64_t>(4096, kElements - i));
    }
    ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory, memory, kElements, KEEL_INT8, KEEL_SUM,
                                   streams_[rank]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    std::array<uint8_t, 4096> page;
    for (uint64_t i = 0; i < kElements; i += page.size()) {
      page.fill(expected(i));
      ASSERT_EQ(
          std::memcmp(data[rank] + i, page.data(), std::min<uint64_t>(page.size(), kElements - i)),
          0)
          << "rank " << rank << ", near element " << i;
    }
  }
#endif
}

}  // namespace
