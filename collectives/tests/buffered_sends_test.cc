// SPDX-License-Identifier: Apache-2.0
// Small sends, which are over before their receive is called; and messages of any size beside
// collectives.
#include <keel/keel.h>

#include <string>
#include <thread>
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

// Messages larger than a buffer, on a communicator of their own with the ranks of |comms_|.
class MessageLaneTest : public BufferedSendsTest {
 protected:
  static constexpr uint64_t kCount = kMost + 1;
  static constexpr int32_t kTimes = 200;

  void SetUp() override {
    BufferedSendsTest::SetUp();
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &lane_streams_[rank]));
      message_[rank] = allocate(rank, 4 * kCount);
      sum_[rank] = allocate(rank, 4 * kCount);
      ranks.emplace_back([this, rank] {
        EXPECT_KEEL_OK(keel_comm_duplicate(comms_[rank], &options_, &lane_[rank]));
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  void TearDown() override {
    for (keel_comm comm : lane_) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    for (keel_stream stream : lane_streams_) EXPECT_KEEL_OK(keel_stream_destroy(stream));
    BufferedSendsTest::TearDown();
  }

  void write(uint32_t rank, keel_stream stream, void* memory, const std::vector<int32_t>& from) {
    EXPECT_KEEL_OK(
        keel_copy(stream, devices_[rank], memory, KEEL_HOST, from.data(), 4 * from.size()));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  }
  std::vector<int32_t> read(uint32_t rank, keel_stream stream, const void* memory, uint64_t count) {
    std::vector<int32_t> result(count);
    EXPECT_KEEL_OK(keel_copy(stream, KEEL_HOST, result.data(), devices_[rank], memory, 4 * count));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
    return result;
  }
  void send_message(uint32_t from) {
    EXPECT_KEEL_OK(keel_send(lane_[from], message_[from], kCount, KEEL_INT32, (from + 1) % kWorld,
                             lane_streams_[from]));
  }
  void receive_message(uint32_t to) {
    EXPECT_KEEL_OK(keel_recv(lane_[to], message_[to], kCount, KEEL_INT32,
                             (to + kWorld - 1) % kWorld, lane_streams_[to]));
  }
  // Enqueues an all_reduce of the first |count| elements.
  void reduce(uint32_t rank, uint64_t count) {
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], sum_[rank], sum_[rank], count, KEEL_INT32,
                                   KEEL_SUM, streams_[rank]));
  }

  // Sends a message around the ring, from rank 0 on; each rank reads it.
  void pass_messages(uint32_t rank) {
    for (int32_t time = 0; time < kTimes; ++time) {
      const std::vector<int32_t> wanted = values(time * 7, kCount);
      if (rank == 0) {
        write(rank, lane_streams_[rank], message_[rank], wanted);
        send_message(rank);
        EXPECT_KEEL_OK(keel_stream_synchronize(lane_streams_[rank], KEEL_TIMEOUT_DEFAULT));
        write(rank, lane_streams_[rank], message_[rank], std::vector<int32_t>(kCount));
      }
      receive_message(rank);
      const auto received = read(rank, lane_streams_[rank], message_[rank], kCount);
      ASSERT_TRUE(received == wanted) << "rank " << rank << ", message " << time;
      if (rank != 0) send_message(rank);
    }
    EXPECT_KEEL_OK(keel_stream_synchronize(lane_streams_[rank], KEEL_TIMEOUT_DEFAULT));
  }
  void reduce_often(uint32_t rank) {
    for (int32_t time = 0; time < kTimes; ++time) {
      const uint64_t count = time % 2 == 0 ? 16 : kCount;
      write(rank, streams_[rank], sum_[rank], values(time + static_cast<int32_t>(rank), count));
      reduce(rank, count);
      std::vector<int32_t> wanted = values(0, count);
      for (int32_t& value : wanted) value = 3 * value + 3 * time + 3;
      const auto result = read(rank, streams_[rank], sum_[rank], count);
      ASSERT_TRUE(result == wanted) << "rank " << rank << ", all_reduce " << time;
    }
  }

  std::array<keel_comm, kWorld> lane_ = {};
  std::array<keel_stream, kWorld> lane_streams_ = {};
  std::array<void*, kWorld> message_ = {};
  std::array<void*, kWorld> sum_ = {};
};

TEST_P(MessageLaneTest, UnreceivedMessageHoldsUpNoCollective) {
  write(0, lane_streams_[0], message_[0], values(9, kCount));
  send_message(0);
  for (const uint64_t count : {uint64_t{16}, kCount}) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      write(rank, streams_[rank], sum_[rank], std::vector<int32_t>(count, 5));
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) reduce(rank, count);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_EQ(read(rank, streams_[rank], sum_[rank], count), std::vector<int32_t>(count, 15));
    }
  }
  EXPECT_EQ(keel_stream_query(lane_streams_[0]), KEEL_NOT_READY);
  receive_message(1);
  EXPECT_EQ(read(1, lane_streams_[1], message_[1], kCount), values(9, kCount));
  EXPECT_KEEL_OK(keel_stream_synchronize(lane_streams_[0], KEEL_TIMEOUT_DEFAULT));
}

TEST_P(MessageLaneTest, OneThreadPassesMessagesWhileAnotherReduces) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([this, rank] { pass_messages(rank); });
    threads.emplace_back([this, rank] { reduce_often(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(, MessageLaneTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "staged" : "alias"; });
INSTANTIATE_TEST_SUITE_P(, BufferedSendsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "staged" : "alias"; });

}  // namespace
}  // namespace keel
