// SPDX-License-Identifier: Apache-2.0
// Failures between ranks, and the error texts of wrong calls.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <keel/rank_status.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

using keel::testing::test_device;

constexpr int64_t kSecond = 1'000'000'000;
// Time for a running rank to call on a busy machine.
constexpr int64_t kDeadline = kSecond;
constexpr uint64_t kCount = 100;
constexpr uint64_t kMessageCount = 20'000;  // too large to be buffered

class CollectiveFailures : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_KEEL_OK(keel::testing::init_test_devices(3)); }
  static void TearDownTestSuite() { EXPECT_KEEL_OK(keel_shutdown()); }

  void SetUp() override { make_ranks(3, 0); }
  void TearDown() override {
    for (keel_comm comm : comms_) keel_comm_destroy(comm);
    for (keel_stream stream : streams_) keel_stream_destroy(stream);
    for (size_t rank = 0; rank < data_.size(); ++rank) keel_free(devices_[rank], data_[rank]);
  }

  void make_ranks(uint32_t world, int64_t timeout_ns) {
    TearDown();
    comms_.assign(world, {});
    streams_.assign(world, {});
    devices_.assign(world, {});
    data_.assign(world, nullptr);
    for (uint32_t rank = 0; rank < world; ++rank) {
      ASSERT_EQ(KEEL_OK, keel_device_get(rank, &devices_[rank]));
      ASSERT_EQ(KEEL_OK, keel_stream_create(devices_[rank], 0, &streams_[rank]));
      ASSERT_EQ(KEEL_OK,
                keel_alloc(devices_[rank], KEEL_MEMORY_DEVICE, kMessageCount * 4, &data_[rank]));
    }
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    ASSERT_EQ(KEEL_OK, keel_comm_init_all(devices_.data(), world, &options, comms_.data()))
        << keel_last_error();
    // For later operations; the ranks meet with the default timeout.
    for (keel_comm comm : comms_) ASSERT_EQ(KEEL_OK, keel_comm_timeout_set(comm, timeout_ns));
  }
  keel_status all_reduce(uint32_t rank, uint64_t count = kCount) {
    return keel_all_reduce(comms_[rank], data_[rank], data_[rank], count, KEEL_FLOAT32, KEEL_SUM,
                           streams_[rank]);
  }
  keel_status send(uint32_t rank, uint32_t peer) {
    return keel_send(comms_[rank], data_[rank], kMessageCount, KEEL_FLOAT32, peer, streams_[rank]);
  }
  keel_status receive(uint32_t rank, uint32_t peer) {
    return keel_recv(comms_[rank], data_[rank], kMessageCount, KEEL_FLOAT32, peer, streams_[rank]);
  }
  uint64_t operations(uint32_t rank) {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_comm_stats_get(comms_[rank], &stats));
    return stats.operations;
  }
  keel_status synchronize(uint32_t rank) {
    return keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT);
  }

  std::vector<keel_device> devices_;
  std::vector<keel_comm> comms_;
  std::vector<keel_stream> streams_;
  std::vector<void*> data_;
};

TEST_F(CollectiveFailures, AMismatchFailsAllRanksAndNamesTheOddOne) {
  EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(
      keel_broadcast(comms_[1], data_[1], data_[1], kCount, KEEL_FLOAT32, 0, streams_[1]));
  EXPECT_KEEL_OK(all_reduce(2));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "rank 1 called broadcast(100 float32, root 0)",
                 synchronize(rank));
  }
  // No operation is lost: after a recovery the next operation works.
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(all_reduce(rank));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
}

TEST_F(CollectiveFailures, EveryKindOfMismatchIsSeen) {
  struct Call {
    uint64_t count;
    keel_dtype dtype;
    keel_reduction reduction;
  };
  for (const Call& odd :
       {Call{kCount - 1, KEEL_FLOAT32, KEEL_SUM}, Call{kCount, KEEL_INT32, KEEL_SUM},
        Call{kCount, KEEL_FLOAT32, KEEL_MAX}}) {
    EXPECT_KEEL_OK(all_reduce(0));
    EXPECT_KEEL_OK(all_reduce(1));
    EXPECT_KEEL_OK(keel_all_reduce(comms_[2], data_[2], data_[2], odd.count, odd.dtype,
                                   odd.reduction, streams_[2]));
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "rank 2 called", synchronize(rank));
      EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    }
  }
}

TEST_F(CollectiveFailures, ARootOfItsOwnIsAMismatch) {
  using Call = keel_status (*)(keel_comm, void*, uint32_t root, keel_stream);
  constexpr Call kBroadcast = [](keel_comm comm, void* data, uint32_t root, keel_stream stream) {
    return keel_broadcast(comm, data, data, kCount, KEEL_FLOAT32, root, stream);
  };
  constexpr Call kReduce = [](keel_comm comm, void* data, uint32_t root, keel_stream stream) {
    return keel_reduce(comm, data, data, kCount, KEEL_FLOAT32, KEEL_SUM, root, stream);
  };
  for (const auto& [call, name] : {std::pair(kBroadcast, "broadcast(100 float32, root 2)"),
                                   std::pair(kReduce, "reduce(100 float32, sum, root 2)")}) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_KEEL_OK(call(comms_[rank], data_[rank], rank == 1 ? 2 : 0, streams_[rank]));
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_FAILS(KEEL_INVALID_ARGUMENT, std::string("rank 1 called ") + name, synchronize(rank));
      EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    }
  }
}

TEST_F(CollectiveFailures, ADeadlineIsOfTheCallsAfterIt) {
  constexpr int64_t kMinute = 60'000'000'000;
  make_ranks(3, kMinute);
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  EXPECT_KEEL_OK(keel_comm_timeout_set(comms_[0], kMinute / 6000));
  EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_FAILS(KEEL_TIMED_OUT, "did not call in time", synchronize(0));
}

// Found long before the deadline of a minute, in any order of arrival.
TEST_F(CollectiveFailures, AMessageAgainstACollectiveIsAMismatch) {
  for (const bool sends : {true, false}) {
    for (const uint32_t odd : {0, 1, 2}) {
      SCOPED_TRACE(odd);
      make_ranks(3, 0);
      const uint32_t peer = (odd + 1) % 3;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        if (rank != odd) {
          EXPECT_KEEL_OK(all_reduce(rank));
        } else {
          EXPECT_KEEL_OK(sends ? send(rank, peer) : receive(rank, peer));
        }
      }
      const std::string text = "mismatch: rank " + std::to_string(odd) + " (" + test_device(odd) +
                               ") called " + (sends ? "send" : "recv") + "(20000 float32 " +
                               (sends ? "to" : "from") + " rank " + std::to_string(peer) +
                               "), all others all_reduce(100 float32, sum";
      for (uint32_t rank = 0; rank < 3; ++rank) {
        EXPECT_FAILS(KEEL_INVALID_ARGUMENT, text, synchronize(rank));
        EXPECT_EQ(KEEL_INVALID_ARGUMENT, keel_comm_async_error(comms_[rank]));
      }
    }
  }
}

TEST_F(CollectiveFailures, MessagesThatWaitForEachOtherAreAMismatch) {
  EXPECT_KEEL_OK(receive(0, 1));
  EXPECT_KEEL_OK(receive(1, 2));
  EXPECT_KEEL_OK(receive(2, 0));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "rank 1 (" + test_device(1) + ") called recv(20000 float32",
                 synchronize(rank));
  }
}

// Temporarily odd: one rank is in a message, the peers are in the collective after the message.
TEST_F(CollectiveFailures, MessagesBeforeACollectiveAreNone) {
  keel_gate gate;
  ASSERT_EQ(KEEL_OK, keel_gate_create(&gate));
  EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[1], gate));
  for (uint32_t round = 0; round < 20; ++round) {
    EXPECT_KEEL_OK(all_reduce(2));
    EXPECT_KEEL_OK(send(0, 1));
    EXPECT_KEEL_OK(receive(0, 1));
    EXPECT_KEEL_OK(all_reduce(0));
    EXPECT_KEEL_OK(receive(1, 0));
    EXPECT_KEEL_OK(send(1, 0));
    EXPECT_KEEL_OK(all_reduce(1));
  }
  EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
}

TEST_F(CollectiveFailures, TheDeadlineSaysWhatEachRankIsAt) {
  make_ranks(3, kDeadline);
  EXPECT_KEEL_OK(receive(0, 1));
  EXPECT_KEEL_OK(all_reduce(2));
  for (const uint32_t rank : {0, 2}) {
    EXPECT_FAILS(KEEL_TIMED_OUT,
                 "did not call in time: rank 0 is at recv(20000 float32 from rank 1), rank 1 at "
                 "nothing, rank 2 at all_reduce(100 float32, sum)",
                 synchronize(rank));
  }
}

// Each rank's second call waits on its stream for the first, and the first waits for the peer.
TEST_F(CollectiveFailures, TheDeadlineSaysWhatAStreamKeepsARankFrom) {
  for (const bool is_published : {true, false}) {
    make_ranks(2, 0);
    keel_comm others[2] = {};
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back(
          [&, rank] { EXPECT_KEEL_OK(keel_comm_duplicate(comms_[rank], nullptr, &others[rank])); });
    }
    for (std::thread& thread : threads) thread.join();
    // The first rank to give up: either published or held.
    EXPECT_KEEL_OK(keel_comm_timeout_set(is_published ? comms_[0] : others[0], kDeadline / 4));
    EXPECT_KEEL_OK(all_reduce(0));
    EXPECT_KEEL_OK(keel_barrier(others[0], streams_[0]));
    EXPECT_KEEL_OK(keel_barrier(others[1], streams_[1]));
    EXPECT_KEEL_OK(all_reduce(1));
    if (is_published) {
      EXPECT_FAILS(KEEL_TIMED_OUT,
                   "rank 0 is at all_reduce(100 float32, sum), rank 1 at all_reduce(100 float32, "
                   "sum), called behind work that its stream is not done with",
                   synchronize(0));
      // At once: a stream failed by a deadline is not waited for until a second deadline.
      EXPECT_FAILS(KEEL_RANK_FAILED, "rank 0 (" + test_device(0) + ")", synchronize(1));
    } else {
      EXPECT_FAILS(
          KEEL_RANK_FAILED,
          "rank 0 (" + test_device(0) + "): what is before it on its stream was not over in time",
          synchronize(1));
    }
    for (const keel_comm comm : others) EXPECT_KEEL_OK(keel_comm_destroy(comm));
  }
}

TEST_F(CollectiveFailures, ARankThatDoesNotCallIsNamedAtTheDeadline) {
  make_ranks(3, kDeadline);
  EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(all_reduce(2));
  for (uint32_t rank : {0, 2}) {
    EXPECT_FAILS(KEEL_TIMED_OUT, "rank 1 (" + test_device(1) + ") did not call in time",
                 synchronize(rank));
  }
  // The late rank gets the same answer at once: no peer waits any more.
  EXPECT_FAILS(KEEL_TIMED_OUT, "rank 1", all_reduce(1));
  EXPECT_EQ(KEEL_TIMED_OUT, keel_comm_async_error(comms_[1]));
  make_ranks(3, 0);
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
}

TEST_F(CollectiveFailures, ARankWhoseStreamFailsIsNamedToAll) {
  keel_gate gate;
  ASSERT_EQ(KEEL_OK, keel_gate_create(&gate));
  EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[1], gate));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_DATA_LOSS, "the loader lost a batch"));
  EXPECT_FAILS(KEEL_RANK_FAILED, "rank 1 (" + test_device(1) + "): the loader lost a batch",
               synchronize(0));
  EXPECT_FAILS(KEEL_RANK_FAILED, "rank 1 (" + test_device(1) + "): the loader lost a batch",
               synchronize(2));
  EXPECT_FAILS(KEEL_DATA_LOSS, "the loader lost a batch", synchronize(1));
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
}

// The operation of a failed stream continues until the peers have called too.
TEST_F(CollectiveFailures, AStreamRecoversOnceItsOperationIsOver) {
  keel_gate gate;
  ASSERT_EQ(KEEL_OK, keel_gate_create(&gate));
  EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[1], gate));
  EXPECT_KEEL_OK(all_reduce(1));
  EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_DATA_LOSS, "the loader lost a batch"));
  EXPECT_FAILS(KEEL_TIMED_OUT, "before all_reduce was over",
               keel_stream_recover(streams_[1], kSecond / 1000));
  EXPECT_FAILS(KEEL_DATA_LOSS, "the loader lost a batch", synchronize(1));
  for (uint32_t rank : {0, 2}) EXPECT_KEEL_OK(all_reduce(rank));
  EXPECT_KEEL_OK(keel_stream_recover(streams_[1], KEEL_TIMEOUT_DEFAULT));
  EXPECT_EQ(operations(1), 1u);
  for (uint32_t rank : {0, 2}) {
    EXPECT_FAILS(KEEL_RANK_FAILED, "rank 1", synchronize(rank));
    EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], KEEL_TIMEOUT_DEFAULT));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
}

TEST_F(CollectiveFailures, AStreamIsDestroyedOnceItsOperationIsOver) {
  make_ranks(3, kSecond / 10);
  EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(keel_stream_destroy(streams_[0]));
  EXPECT_EQ(operations(0), 1u);
  EXPECT_EQ(KEEL_TIMED_OUT, keel_comm_async_error(comms_[0]));
}

// A rank that gives up may free its buffers at once: no peer reads them any more. 128 MiB take tens
// of times as long to copy as the deadline, and return to the system when freed.
TEST_F(CollectiveFailures, ARankThatGivesUpMayFreeWhatOthersWereReading) {
  make_ranks(3, kSecond / 1000);
  constexpr uint64_t kBytes = 128 << 20;
  void* large[3] = {};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(KEEL_OK, keel_alloc(devices_[rank], KEEL_MEMORY_DEVICE, kBytes, &large[rank]))
        << keel_last_error();
    const uint32_t pattern = rank;
    EXPECT_KEEL_OK(keel_fill(streams_[rank], large[rank], &pattern, 4, kBytes));
    EXPECT_KEEL_OK(synchronize(rank));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    // On a slow machine the first rank has given up before the last rank calls.
    const keel_status status = keel_broadcast(comms_[rank], large[rank], large[rank], kBytes,
                                              KEEL_UINT8, 0, streams_[rank]);
    EXPECT_TRUE(status == KEEL_OK || status == KEEL_TIMED_OUT) << keel_last_error();
  }
  const keel_status status = synchronize(0);
  EXPECT_TRUE(status == KEEL_OK || status == KEEL_TIMED_OUT) << keel_last_error();
  EXPECT_KEEL_OK(keel_stream_recover(streams_[0], KEEL_TIMEOUT_DEFAULT));
  // Frees on this stream alone: keel_free would wait for the streams of the peers too.
  EXPECT_KEEL_OK(keel_free_on_stream(streams_[0], large[0]));
  EXPECT_KEEL_OK(synchronize(0));
  EXPECT_KEEL_OK(keel_memory_trim(devices_[0]));
  for (uint32_t rank = 1; rank < 3; ++rank) {
    synchronize(rank);
    EXPECT_KEEL_OK(keel_free(devices_[rank], large[rank]));
  }
}

// The same for a rank whose call has already shown its buffer to the peers: the abort comes while
// they read the buffer, and before the rank's own part begins.
TEST_F(CollectiveFailures, AnAbortedRankMayWriteWhatOthersWereReading) {
  if (keel::testing::test_backend() != "cpu") GTEST_SKIP() << "not a CPU device";
  constexpr uint64_t kBytes = 1 << 19;
  std::vector<uint8_t> sent(kBytes);
  std::vector<uint8_t> received(2 * kBytes);
  std::vector<uint8_t> other(2 * kBytes);
#if defined(__SANITIZE_THREAD__)
  constexpr int kRounds = 200;
#else
  constexpr int kRounds = 40;  // the bytes alone rarely show what the thread sanitizer reports
#endif
  for (int round = 0; round < kRounds; ++round) {
    make_ranks(2, 0);
    EXPECT_KEEL_OK(keel_host_register(devices_[0], sent.data(), sent.size()));
    EXPECT_KEEL_OK(keel_host_register(devices_[0], other.data(), other.size()));
    EXPECT_KEEL_OK(keel_host_register(devices_[1], received.data(), received.size()));
    std::memset(sent.data(), 1, sent.size());
    std::memset(received.data(), 1, received.size());
    std::thread first([&] {
      keel_all_gather(comms_[0], sent.data(), other.data(), kBytes, KEEL_UINT8, streams_[0]);
      while (keel_stream_query(streams_[0]) == KEEL_NOT_READY) std::this_thread::yield();
      if (keel_stream_query(streams_[0]) != KEEL_OK) std::memset(sent.data(), 2, kBytes);
    });
    std::thread second([&] {
      keel_all_gather(comms_[1], received.data() + kBytes, received.data(), kBytes, KEEL_UINT8,
                      streams_[1]);
      synchronize(1);
    });
    std::thread third([&] {
      for (int i = 0; i < 50 * (round % 40); ++i) std::this_thread::yield();
      keel_comm_abort(comms_[1]);
    });
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(std::memchr(received.data(), 2, received.size()), nullptr) << "round " << round;
    for (keel_comm& comm : comms_) keel_comm_destroy(std::exchange(comm, {}));
    EXPECT_KEEL_OK(keel_host_unregister(devices_[0], sent.data()));
    EXPECT_KEEL_OK(keel_host_unregister(devices_[0], other.data()));
    EXPECT_KEEL_OK(keel_host_unregister(devices_[1], received.data()));
  }
}

TEST_F(CollectiveFailures, AbortFailsWhatIsInFlightAndWhatComesLater) {
  EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(keel_comm_abort(comms_[2]));
  EXPECT_FAILS(KEEL_ABORTED, "rank 2 aborted", synchronize(0));
  EXPECT_FAILS(KEEL_ABORTED, "rank 2 aborted", all_reduce(1));
  EXPECT_EQ(KEEL_ABORTED, keel_comm_async_error(comms_[0]));
}

TEST_F(CollectiveFailures, AbortReachesAnOperationThatWaitsForHeldWork) {
  keel_gate gate;
  ASSERT_EQ(KEEL_OK, keel_gate_create(&gate));
  EXPECT_KEEL_OK(keel_stream_wait_gate(streams_[1], gate));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  EXPECT_KEEL_OK(keel_comm_abort(comms_[0]));
  EXPECT_FAILS(KEEL_ABORTED, "abort", synchronize(0));
  EXPECT_FAILS(KEEL_ABORTED, "abort", synchronize(2));
  EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  EXPECT_FAILS(KEEL_ABORTED, "abort", synchronize(1));
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
}

TEST_F(CollectiveFailures, ARankThatLeavesEndsWhatOthersWaitFor) {
  EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(keel_comm_destroy(comms_[1]));
  EXPECT_FAILS(KEEL_ABORTED, "rank 1 (" + test_device(1) + ") left", synchronize(0));
  EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", all_reduce(1));
}

TEST_F(CollectiveFailures, RankStatusNamesTheRankThatLeftAndNoOther) {
  EXPECT_KEEL_OK(keel_comm_rank_status(comms_[0], 1));
  EXPECT_KEEL_OK(keel_comm_destroy(comms_[1]));
  EXPECT_FAILS(KEEL_ABORTED, "rank 1 (" + test_device(1) + ") left",
               keel_comm_rank_status(comms_[0], 1));
  EXPECT_KEEL_OK(keel_comm_rank_status(comms_[0], 2));
  EXPECT_KEEL_OK(keel_comm_rank_status(comms_[0], 0));
  EXPECT_KEEL_OK(keel_comm_async_error(comms_[0]));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "3 ranks", keel_comm_rank_status(comms_[0], 3));
  EXPECT_KEEL_OK(keel_comm_abort(comms_[2]));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_FAILS(KEEL_ABORTED, "rank 2 aborted", keel_comm_rank_status(comms_[0], rank));
  }
}

// Destroyed while its own operations wait for peers: the destroying call waits for the end of the
// operations, and all ranks learn of it.
TEST_F(CollectiveFailures, ARankThatIsDestroyedInMidOperationGetsItsEnd) {
  make_ranks(3, kSecond / 10);
  for (int i = 0; i < 3; ++i) EXPECT_KEEL_OK(all_reduce(0));
  EXPECT_KEEL_OK(keel_comm_destroy(comms_[0]));
  EXPECT_FAILS(KEEL_TIMED_OUT, "rank 1 (" + test_device(1) + ")", synchronize(0));
  EXPECT_FAILS(KEEL_TIMED_OUT, "rank 2 (" + test_device(2) + ")", all_reduce(1));
  EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", all_reduce(0));
}

TEST_F(CollectiveFailures, WrongCallsNameTheArgumentAndLoseNothing) {
  EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm",
               keel_all_reduce({}, data_[0], data_[0], 1, KEEL_FLOAT32, KEEL_SUM, streams_[0]));
  EXPECT_FAILS(KEEL_INVALID_HANDLE, "stream",
               keel_all_reduce(comms_[0], data_[0], data_[0], 1, KEEL_FLOAT32, KEEL_SUM, {}));
  EXPECT_FAILS(
      KEEL_INVALID_ARGUMENT, "stream is of " + test_device(1) + ", rank 0 is on " + test_device(0),
      keel_all_reduce(comms_[0], data_[0], data_[0], 1, KEEL_FLOAT32, KEEL_SUM, streams_[1]));
  EXPECT_FAILS(
      KEEL_INVALID_ARGUMENT, "send is NULL",
      keel_all_reduce(comms_[0], nullptr, data_[0], 1, KEEL_FLOAT32, KEEL_SUM, streams_[0]));
  EXPECT_FAILS(KEEL_OUT_OF_RANGE, "send", all_reduce(0, kMessageCount + 1));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "count", all_reduce(0, UINT64_MAX));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "dtype",
               keel_all_reduce(comms_[0], data_[0], data_[0], 1, 99, KEEL_SUM, streams_[0]));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "reduction",
               keel_all_reduce(comms_[0], data_[0], data_[0], 1, KEEL_FLOAT32, 99, streams_[0]));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "premul_sum has no factor",
               keel_all_reduce(comms_[0], data_[0], data_[0], 1, KEEL_FLOAT32, KEEL_PREMUL_SUM,
                               streams_[0]));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "root is 3",
               keel_broadcast(comms_[0], data_[0], data_[0], 1, KEEL_FLOAT32, 3, streams_[0]));
  int on_host[4] = {};
  EXPECT_FAILS(
      KEEL_INVALID_ARGUMENT, "send",
      keel_all_reduce(comms_[0], on_host, data_[0], 4, KEEL_FLOAT32, KEEL_SUM, streams_[0]));
  // All calls but the first, without a communicator, were the rank's calls.
  for (int call = 0; call < 10; ++call) {
    for (const uint32_t rank : {1, 2}) {
      const keel_status called = all_reduce(rank);
      EXPECT_TRUE(called == KEEL_RANK_FAILED || called == KEEL_STREAM_FAILED || called == KEEL_OK)
          << keel_last_error();
    }
  }
  for (const uint32_t rank : {1, 2}) EXPECT_FAILS(KEEL_RANK_FAILED, "rank 0", synchronize(rank));
  for (const uint32_t rank : {1, 2}) EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], kSecond));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
}

TEST_F(CollectiveFailures, WrongCommunicatorsAreRefused) {
  keel_comm comms[3];
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "devices", keel_comm_init_all(nullptr, 1, nullptr, comms));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "count",
               keel_comm_init_all(devices_.data(), 0, nullptr, comms));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_comms",
               keel_comm_init_all(devices_.data(), 1, nullptr, nullptr));
  const keel_device wrong[2] = {devices_[0], {12345}};
  EXPECT_FAILS(KEEL_INVALID_HANDLE, "devices[1]", keel_comm_init_all(wrong, 2, nullptr, comms));
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.chunk_bytes = 100;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "chunk_bytes",
               keel_comm_init_all(devices_.data(), 2, &options, comms));
  options = {};
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "options.header",
               keel_comm_init_all(devices_.data(), 2, &options, comms));
}

TEST_F(CollectiveFailures, EveryFunctionKnowsAHandleThatIsNone) {
  const keel_comm destroyed = comms_[2];
  EXPECT_KEEL_OK(keel_comm_destroy(destroyed));
  uint32_t rank = 0;
  uint32_t world = 0;
  uint64_t size = 0;
  auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  for (const uint64_t id : {uint64_t{0}, destroyed.id, streams_[0].id, UINT64_MAX}) {
    const keel_comm none = {id};
    void* const p = data_[0];
    const keel_stream s = streams_[0];
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_destroy(none));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_abort(none));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_rank(none, &rank, &world));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_async_error(none));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_rank_status(none, 0));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_explain(none, nullptr, &size));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_stats_get(none, &stats));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm",
                 keel_all_reduce(none, p, p, 1, KEEL_FLOAT32, KEEL_SUM, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_broadcast(none, p, p, 1, KEEL_FLOAT32, 0, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_all_gather(none, p, p, 1, KEEL_FLOAT32, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm",
                 keel_reduce_scatter(none, p, p, 1, KEEL_FLOAT32, KEEL_SUM, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_barrier(none, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm",
                 keel_reduce(none, p, p, 1, KEEL_FLOAT32, KEEL_SUM, 0, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_all_to_all(none, p, p, 1, KEEL_FLOAT32, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_gather(none, p, p, 1, KEEL_FLOAT32, 0, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_scatter(none, p, p, 1, KEEL_FLOAT32, 0, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_send(none, p, 1, KEEL_FLOAT32, 1, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_recv(none, p, 1, KEEL_FLOAT32, 1, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm",
                 keel_send_recv(none, p, 1, 1, p, 1, 1, KEEL_FLOAT32, s));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_finalize(none, 0));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_timeout_set(none, 1));
    keel_comm part = {};
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_split(none, 0, 0, nullptr, &part));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_comm_duplicate(none, nullptr, &part));
    keel_reduction reduction = 0;
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm", keel_premul_sum_create(none, 2.0, &reduction));
  }
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_rank", keel_comm_rank(comms_[0], nullptr, &world));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_world", keel_comm_rank(comms_[0], &rank, nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_stats", keel_comm_stats_get(comms_[0], nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "in_out_size",
               keel_comm_explain(comms_[0], nullptr, nullptr));
}

TEST_F(CollectiveFailures, ExplainAndStatsTellThePathTaken) {
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(all_reduce(rank));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_KEEL_OK(synchronize(rank));
  uint64_t size = 0;
  EXPECT_EQ(KEEL_OUT_OF_RANGE, keel_comm_explain(comms_[0], nullptr, &size));
  std::string text(size, '\0');
  EXPECT_KEEL_OK(keel_comm_explain(comms_[0], text.data(), &size));
  EXPECT_NE(text.find("\"device\": \"" + test_device(2) + "\""), std::string::npos) << text;
  auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  EXPECT_KEEL_OK(keel_comm_stats_get(comms_[1], &stats));
  EXPECT_EQ(stats.operations, 1u);
  const bool staged = text.find("\"reach\": \"staged\"") != std::string::npos;
  EXPECT_EQ(stats.bytes_to_host, staged ? kCount * 4 : 0);
  EXPECT_EQ(stats.bytes_to_device, staged ? kCount * 4 : 0);
  EXPECT_EQ(stats.bytes_in_place, staged ? 0 : 2 * kCount * 4);
}

}  // namespace
