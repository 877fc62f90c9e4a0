// SPDX-License-Identifier: Apache-2.0
// Collectives with a buffer of its own for each rank.
#include "collectives/testing/local_ranks.h"

namespace keel {
namespace {

class ListCallsTest : public testing::LocalRanks {
 protected:
  static constexpr uint64_t kCount = 5000;

  static std::vector<int32_t> values(uint32_t from, uint32_t to, uint64_t count = kCount) {
    std::vector<int32_t> all(count);
    for (uint64_t i = 0; i < count; ++i) {
      all[i] = static_cast<int32_t>(from * 1'000'000 + to * 100'000 + i);
    }
    return all;
  }
  std::vector<void*> buffers(uint32_t rank, uint64_t count = kCount) {
    std::vector<void*> all;
    for (uint32_t peer = 0; peer < kWorld; ++peer) all.push_back(allocate(rank, 4 * count));
    return all;
  }
};

TEST_F(ListCallsTest, AllGatherFillsOneBufferForEachRank) {
  for (const bool in_place : {false, true}) {
    std::vector<std::vector<void*>> receive;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      receive.push_back(buffers(rank));
      void* const send = upload(rank, values(rank, 0));
      if (in_place) receive[rank][rank] = send;
      EXPECT_KEEL_OK(keel_all_gather_list(comms_[rank], send, receive[rank].data(), kCount,
                                          KEEL_INT32, streams_[rank]));
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint32_t peer = 0; peer < kWorld; ++peer) {
        EXPECT_EQ(download<int32_t>(rank, receive[rank][peer], kCount), values(peer, 0));
      }
    }
  }
}

TEST_F(ListCallsTest, AllToAllHasItsOwnCountForEachPair) {
  const auto count = [](uint32_t from, uint32_t to) -> uint64_t {
    return from == 1 && to == 2 ? 0 : kCount - 100 * from - to;
  };
  std::vector<std::vector<void*>> receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    receive.push_back(buffers(rank));
    std::vector<const void*> send;
    std::vector<uint64_t> sent;
    std::vector<uint64_t> received;
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      sent.push_back(count(rank, peer));
      received.push_back(count(peer, rank));
      send.push_back(sent[peer] == 0 ? nullptr : upload(rank, values(rank, peer, sent[peer])));
    }
    EXPECT_KEEL_OK(keel_all_to_all_list(comms_[rank], send.data(), sent.data(),
                                        receive[rank].data(), received.data(), KEEL_INT32,
                                        streams_[rank]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      const uint64_t size = count(peer, rank);
      if (size == 0) continue;
      EXPECT_EQ(download<int32_t>(rank, receive[rank][peer], size), values(peer, rank, size));
    }
  }
}

TEST_F(ListCallsTest, ReduceScatterReadsOneBufferForEachRank) {
  std::vector<void*> receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    std::vector<const void*> send;
    for (uint32_t peer = 0; peer < kWorld; ++peer) send.push_back(upload(rank, values(rank, peer)));
    receive.push_back(allocate(rank, 4 * kCount));
    EXPECT_KEEL_OK(keel_reduce_scatter_list(comms_[rank], send.data(), receive[rank], kCount,
                                            KEEL_INT32, KEEL_SUM, streams_[rank]));
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    std::vector<int32_t> sum(kCount);
    for (uint32_t from = 0; from < kWorld; ++from) {
      const std::vector<int32_t> part = values(from, rank);
      for (uint64_t i = 0; i < kCount; ++i) sum[i] += part[i];
    }
    EXPECT_EQ(download<int32_t>(rank, receive[rank], kCount), sum);
  }
}

TEST_F(ListCallsTest, RefusedListFailsAllRanksAndNoLaterCall) {
  std::vector<std::vector<void*>> receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    receive.push_back(buffers(rank));
    void* const send = upload(rank, values(rank, 0));
    if (rank == 1) receive[rank][0] = receive[rank][2];
    const keel_status called = keel_all_gather_list(comms_[rank], send, receive[rank].data(),
                                                    kCount, KEEL_INT32, streams_[rank]);
    EXPECT_EQ(called, rank == 1 ? KEEL_INVALID_ARGUMENT : KEEL_OK) << keel_last_error();
  }
  EXPECT_EQ(recover(),
            (std::array<keel_status, kWorld>{KEEL_RANK_FAILED, KEEL_OK, KEEL_RANK_FAILED}));
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive is NULL",
                 keel_all_gather_list(comms_[rank], receive[rank][0], nullptr, kCount, KEEL_INT32,
                                      streams_[rank]));
  }
  recover();
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_barrier(comms_[rank], streams_[rank]));
  }
  synchronize();
}

}  // namespace
}  // namespace keel
