// SPDX-License-Identifier: Apache-2.0
// Small sends, which are over before their receive is called.
#include <keel/keel.h>

#include <string>
#include <vector>

#include "collectives/testing/local_ranks.h"

namespace keel {
namespace {

constexpr uint64_t kMost = 16 << 10;  // int32 of a buffered message: 64 KiB

class BufferedSendsTest : public testing::LocalRanks, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    options_.chunk_bytes = 4096;  // most messages are of several chunks
    options_.forbid_alias = GetParam() ? 1 : 0;
    testing::LocalRanks::SetUp();
  }

  static std::vector<int32_t> values(int32_t first, uint64_t count) {
    std::vector<int32_t> all(count);
    for (uint64_t i = 0; i < count; ++i) all[i] = first + static_cast<int32_t>(i);
    return all;
  }
  void send(uint32_t from, uint32_t to, const void* data, uint64_t count) {
    EXPECT_KEEL_OK(keel_send(comms_[from], data, count, KEEL_INT32, to, streams_[from]));
  }
  void receive(uint32_t from, uint32_t to, void* data, uint64_t count) {
    EXPECT_KEEL_OK(keel_recv(comms_[to], data, count, KEEL_INT32, from, streams_[to]));
  }
  void synchronize_rank(uint32_t rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
  }
};

// The sender may change its buffer then.
TEST_P(BufferedSendsTest, AreOverBeforeTheReceiveIsCalled) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1025}, kMost}) {
    SCOPED_TRACE(count);
    void* const data = upload(0, values(7, count + 1));
    send(0, 1, data, count);
    synchronize_rank(0);
    const uint32_t zero = 0;
    EXPECT_KEEL_OK(keel_fill(streams_[0], data, &zero, 4, 4 * (count + 1)));
    synchronize_rank(0);
    void* const received = allocate(1, 4 * (count + 1));
    receive(0, 1, received, count);
    EXPECT_EQ(download<int32_t>(1, received, count), values(7, count));
  }
}

TEST_P(BufferedSendsTest, AllRanksMaySendBeforeTheyReceive) {
  for (uint32_t round = 0; round < 20; ++round) {
    std::vector<void*> received;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      const auto first = static_cast<int32_t>(1000 * round + rank);
      for (uint32_t step = 1; step < kWorld; ++step) {
        send(rank, (rank + step) % kWorld, upload(rank, values(first, kMost)), kMost);
      }
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint32_t step = 1; step < kWorld; ++step) {
        received.push_back(allocate(rank, 4 * kMost));
        receive((rank + step) % kWorld, rank, received.back(), kMost);
      }
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (uint32_t step = 1; step < kWorld; ++step) {
        const auto first = static_cast<int32_t>(1000 * round + (rank + step) % kWorld);
        EXPECT_EQ(download<int32_t>(rank, received[rank * 2 + step - 1], kMost),
                  values(first, kMost));
      }
    }
  }
}

// As torch's isend and irecv: each of the two on a stream of its own.
TEST_P(BufferedSendsTest, SendsAndReceivesMayBeOnTwoStreams) {
  std::array<keel_stream, 2> others = {};
  std::array<void*, 2> received = {};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &others[rank]));
    received[rank] = allocate(rank, 400);
    send(rank, 1 - rank, upload(rank, values(static_cast<int32_t>(rank), 100)), 100);
    EXPECT_KEEL_OK(
        keel_recv(comms_[rank], received[rank], 100, KEEL_INT32, 1 - rank, others[rank]));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(others[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_EQ(download<int32_t>(rank, received[rank], 100),
              values(static_cast<int32_t>(1 - rank), 100));
    EXPECT_KEEL_OK(keel_stream_destroy(others[rank]));
  }
}

// The collective is behind the send at one rank, and before the receive at the other.
TEST_P(BufferedSendsTest, ACollectiveMayComeBeforeTheReceive) {
  void* const received = allocate(1, 400);
  send(0, 1, upload(0, values(5, 100)), 100);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_barrier(comms_[rank], streams_[rank]));
  }
  receive(0, 1, received, 100);
  EXPECT_EQ(download<int32_t>(1, received, 100), values(5, 100));
  synchronize();
}

// Two messages of a pair are in flight; the next waits until one has been received.
TEST_P(BufferedSendsTest, ASendWaitsWhereNothingIsFree) {
  constexpr uint32_t kMessages = 7;
  void* const data = upload(0, values(0, kMessages));
  for (uint32_t i = 0; i < kMessages; ++i) send(0, 1, static_cast<int32_t*>(data) + i, 1);
  EXPECT_EQ(keel_stream_synchronize(streams_[0], 50'000'000), KEEL_TIMED_OUT);
  void* const received = allocate(1, 4 * kMessages);
  for (uint32_t i = 0; i < kMessages; ++i) receive(0, 1, static_cast<int32_t*>(received) + i, 1);
  EXPECT_EQ(download<int32_t>(1, received, kMessages), values(0, kMessages));
  synchronize_rank(0);
}

// One of more than 64 KiB waits for its receive, as before.
TEST_P(BufferedSendsTest, LargeOnesThatWaitForEachOtherAreAMismatch) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send(rank, (rank + 1) % kWorld, upload(rank, values(0, kMost + 1)), kMost + 1);
  }
  for (const keel_status status : recover()) EXPECT_EQ(status, KEEL_INVALID_ARGUMENT);
}

TEST_P(BufferedSendsTest, TheSenderMayLeaveBeforeTheReceive) {
  void* const received = allocate(1, 400);
  send(0, 1, upload(0, values(3, 100)), 100);
  synchronize_rank(0);
  EXPECT_KEEL_OK(keel_comm_destroy(comms_[0]));
  comms_[0] = {};
  receive(0, 1, received, 100);
  EXPECT_EQ(download<int32_t>(1, received, 100), values(3, 100));
}

// The receiver at once, the sender at its next message.
TEST_P(BufferedSendsTest, AMismatchIsToldToBoth) {
  const std::string text = " sends 100 int32, ";
  void* const data = upload(0, values(0, 100));
  void* const received = allocate(1, 400);
  send(0, 1, data, 100);
  synchronize_rank(0);
  receive(0, 1, received, 99);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, text,
               keel_stream_synchronize(streams_[1], KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_stream_recover(streams_[1], KEEL_TIMEOUT_DEFAULT));
  send(0, 1, data, 100);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "an earlier, buffered send: mismatch: rank 0",
               keel_stream_synchronize(streams_[0], KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_stream_recover(streams_[0], KEEL_TIMEOUT_DEFAULT));
  receive(0, 1, received, 100);
  EXPECT_EQ(download<int32_t>(1, received, 100), values(0, 100));
}

INSTANTIATE_TEST_SUITE_P(, BufferedSendsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "staged" : "alias"; });

}  // namespace
}  // namespace keel
