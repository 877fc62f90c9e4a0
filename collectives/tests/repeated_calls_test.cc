// SPDX-License-Identifier: Apache-2.0
// Repeated calls, with a fast path where possible.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <array>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"
#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

using keel::testing::Case;
using keel::testing::CaseRun;
using keel::testing::Operation;
using keel::testing::Reference;

class RepeatedCalls : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_KEEL_OK(keel::testing::init_test_devices(2)); }
  static void TearDownTestSuite() { EXPECT_KEEL_OK(keel_shutdown()); }

  struct Rank {
    uint32_t rank;
    keel_device device;
    keel_comm comm;
    keel_stream stream;
  };

  // Runs |work| for each rank, on a thread per rank.
  void on_ranks(uint32_t world, const std::function<void(const Rank&)>& work) {
    std::vector<keel_device> devices;
    const std::vector<keel_device> available = keel::testing::all_devices();
    for (uint32_t rank = 0; rank < world; ++rank) {
      devices.push_back(available[rank % available.size()]);
    }
    std::vector<keel_comm> comms(world);
    ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), world, nullptr, comms.data()));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        Rank own = {rank, devices[rank], comms[rank], {}};
        EXPECT_KEEL_OK(keel_stream_create(own.device, 0, &own.stream));
        work(own);
        keel_stream_destroy(own.stream);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
  }
  static void* allocate(const Rank& rank, uint64_t bytes) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc(rank.device, KEEL_MEMORY_DEVICE, bytes, &pointer));
    return pointer;
  }
  static void synchronize(const Rank& rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(rank.stream, KEEL_TIMEOUT_DEFAULT));
  }
};

class RepeatedCallsOfWorlds : public RepeatedCalls, public testing::WithParamInterface<uint32_t> {};

TEST_P(RepeatedCallsOfWorlds, GiveEachTimeWhatTheyGaveTheFirst) {
  const uint32_t world = GetParam();
  constexpr Operation kCalled[] = {
      Operation::kAllReduce, Operation::kReduce,   Operation::kReduceScatter, Operation::kBroadcast,
      Operation::kAllGather, Operation::kAllToAll, Operation::kGather,        Operation::kScatter};
  constexpr keel_dtype kDtypes[] = {KEEL_FLOAT32, KEEL_INT8, KEEL_BFLOAT16, KEEL_FLOAT64};
  constexpr int kTimes = 4;
  on_ranks(world, [&](const Rank& own) {
    uint32_t seed = 0;
    for (const Operation operation : kCalled) {
      for (const uint64_t count : {0, 1, 5, 37, 300}) {
        Case scenario;
        scenario.operation = operation;
        scenario.dtype = kDtypes[++seed % std::size(kDtypes)];
        scenario.reduction = seed % KEEL_REDUCTION_COUNT;
        scenario.world = world;
        scenario.count = count;
        scenario.in_place = seed % 3 == 0;
        scenario.seed = seed;
        const Reference reference(scenario);
        CaseRun run(reference, own.rank, own.device);
        for (int time = 0; time < kTimes; ++time) {
          EXPECT_EQ(run.prepare(own.stream), "");
          synchronize(own);
          EXPECT_EQ(run.call(own.comm, own.stream), "");
          synchronize(own);
          EXPECT_EQ(run.fetch(own.stream), "");
          synchronize(own);
          EXPECT_EQ(run.check(), "");
          EXPECT_KEEL_OK(keel_barrier(own.comm, own.stream));
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, RepeatedCallsOfWorlds, testing::Values(2u, 3u, 5u));

// Valid parameters are checked again in the next call.
TEST_F(RepeatedCalls, AreRefusedWhenTheirBuffersAreWrong) {
  constexpr uint64_t kCount = 16;
  constexpr uint64_t kBytes = kCount * sizeof(float);
  on_ranks(2, [&](const Rank& own) {
    auto* const send = static_cast<char*>(allocate(own, kBytes));
    auto* const receive = static_cast<char*>(allocate(own, kBytes));
    const auto call = [&](const void* from, void* to, keel_stream stream) {
      return keel_all_reduce(own.comm, from, to, kCount, KEEL_FLOAT32, KEEL_SUM, stream);
    };
    const auto call_well = [&] {
      const float value = static_cast<float>(own.rank) + 1;
      EXPECT_KEEL_OK(keel_fill(own.stream, send, &value, sizeof(value), kBytes));
      synchronize(own);
      EXPECT_KEEL_OK(call(send, receive, own.stream));
      std::array<float, kCount> result = {};
      EXPECT_KEEL_OK(keel_copy(own.stream, KEEL_HOST, result.data(), own.device, receive, kBytes));
      synchronize(own);
      for (const float each : result) EXPECT_EQ(each, 3.0f);
    };
    for (int time = 0; time < 3; ++time) call_well();
    // On both ranks, since each call counts.
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send", call(nullptr, receive, own.stream));
    auto* const both = static_cast<char*>(allocate(own, 2 * kBytes));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap", call(both + 4, both, own.stream));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap", call(both + 4, both, own.stream));
    EXPECT_KEEL_OK(keel_free(own.device, both));
    void* const shorter = allocate(own, kBytes / 2);
    EXPECT_FAILS(KEEL_OUT_OF_RANGE, "receive", call(send, shorter, own.stream));
    EXPECT_FAILS(KEEL_OUT_OF_RANGE, "send", call(send + 4, receive, own.stream));
    EXPECT_KEEL_OK(keel_free(own.device, shorter));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive", call(send, shorter, own.stream));
    void* pinned = nullptr;
    if (keel_alloc(own.device, KEEL_MEMORY_PINNED, kBytes, &pinned) == KEEL_OK) {
      // Libraries may take no host memory.
      const keel_status called = call(send, pinned, own.stream);
      EXPECT_TRUE(called == KEEL_OK || called == KEEL_UNSUPPORTED) << keel_last_error();
      synchronize(own);
      EXPECT_KEEL_OK(keel_free(own.device, pinned));
    }
    keel_stream gone;
    EXPECT_KEEL_OK(keel_stream_create(own.device, 0, &gone));
    EXPECT_KEEL_OK(keel_stream_destroy(gone));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "stream", call(send, receive, gone));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "comm",
                 keel_all_reduce({}, send, receive, kCount, KEEL_FLOAT32, KEEL_SUM, own.stream));
    for (int time = 0; time < 3; ++time) call_well();
    EXPECT_KEEL_OK(keel_free(own.device, send));
    EXPECT_KEEL_OK(keel_free(own.device, receive));
  });
}

// The caller's memory is valid in place of device memory while registered.
TEST_F(RepeatedCalls, TakeRegisteredMemoryUntilItIsNoMore) {
  if (keel::testing::test_backend() != "cpu") {
    GTEST_SKIP() << "only CPU devices know memory by the host's addresses";
  }
  constexpr uint64_t kCount = 16;
  on_ranks(2, [&](const Rank& own) {
    std::array<int32_t, kCount> send = {};
    std::array<int32_t, kCount> receive = {};
    const auto call = [&](const void* from) {
      return keel_all_reduce(own.comm, from, receive.data(), kCount, KEEL_INT32, KEEL_SUM,
                             own.stream);
    };
    const auto call_well = [&](int32_t value) {
      send.fill(value + static_cast<int32_t>(own.rank));
      EXPECT_KEEL_OK(call(send.data()));
      synchronize(own);
      for (const int32_t each : receive) EXPECT_EQ(each, 2 * value + 1);
    };
    EXPECT_KEEL_OK(keel_host_register(own.device, send.data(), sizeof(send)));
    EXPECT_KEEL_OK(keel_host_register(own.device, receive.data(), sizeof(receive)));
    for (int time = 0; time < 3; ++time) call_well(10 * time);
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send", call(send.data() + 1));
    EXPECT_KEEL_OK(keel_host_unregister(own.device, send.data()));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send", call(send.data()));
    EXPECT_KEEL_OK(keel_host_register(own.device, send.data(), sizeof(send)));
    for (int time = 0; time < 3; ++time) call_well(7 * time);
    EXPECT_KEEL_OK(keel_host_unregister(own.device, send.data()));
    EXPECT_KEEL_OK(keel_host_unregister(own.device, receive.data()));
  });
}

// A call keeps its buffers until completion, whether other ranks have called or not.
TEST_F(RepeatedCalls, MayHaveTheirBuffersFreedBeforeTheOthersCall) {
  constexpr uint64_t kCount = 16 << 10;
  constexpr uint64_t kBytes = kCount * sizeof(int32_t);
  std::barrier all(2);
  on_ranks(2, [&](const Rank& own) {
    for (int time = 0; time < 4; ++time) {
      auto* const send = static_cast<char*>(allocate(own, kBytes));
      auto* const receive = static_cast<char*>(allocate(own, kBytes));
      std::vector<int32_t> result(kCount);
      const int32_t value = 3 + static_cast<int32_t>(own.rank);
      EXPECT_KEEL_OK(keel_fill(own.stream, send, &value, sizeof(value), kBytes));
      synchronize(own);
      if (own.rank == 1) all.arrive_and_wait();
      EXPECT_KEEL_OK(
          keel_all_reduce(own.comm, send, receive, kCount, KEEL_INT32, KEEL_SUM, own.stream));
      if (own.rank == 1) {
        (void)keel_copy(own.stream, KEEL_HOST, result.data(), own.device, receive, kBytes);
      }
      EXPECT_KEEL_OK(keel_free(own.device, send));
      EXPECT_KEEL_OK(keel_free(own.device, receive));
      if (own.rank == 0) all.arrive_and_wait();
      synchronize(own);
      if (own.rank == 1) {
        EXPECT_EQ(result, std::vector<int32_t>(kCount, 7));
      }
    }
  });
}

TEST_F(RepeatedCalls, WaitInAGroupForItsEnd) {
  on_ranks(2, [&](const Rank& own) {
    auto* const data = static_cast<char*>(allocate(own, 64));
    const auto call = [&] {
      EXPECT_KEEL_OK(keel_all_reduce(own.comm, data, data, 16, KEEL_INT32, KEEL_SUM, own.stream));
    };
    const int32_t one = 1;
    EXPECT_KEEL_OK(keel_fill(own.stream, data, &one, sizeof(one), 64));
    synchronize(own);
    call();
    call();
    synchronize(own);
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_group_start());
    call();
    call();
    EXPECT_KEEL_OK(keel_comm_stats_get(own.comm, &stats));
    EXPECT_EQ(stats.operations, 2u);
    EXPECT_KEEL_OK(keel_group_end());
    int32_t result = 0;
    EXPECT_KEEL_OK(keel_copy(own.stream, KEEL_HOST, &result, own.device, data, sizeof(result)));
    synchronize(own);
    EXPECT_EQ(result, 16);
    EXPECT_KEEL_OK(keel_free(own.device, data));
  });
}

// After the end of the communicator, even a formerly valid call does not reach the peers.
TEST_F(RepeatedCalls, FailAfterAnAbort) {
  std::barrier all_called(2);
  on_ranks(2, [&](const Rank& own) {
    auto* const data = static_cast<char*>(allocate(own, 64));
    const auto call = [&] {
      return keel_all_reduce(own.comm, data, data, 16, KEEL_INT32, KEEL_MAX, own.stream);
    };
    for (int time = 0; time < 3; ++time) {
      EXPECT_KEEL_OK(call());
      synchronize(own);
    }
    all_called.arrive_and_wait();
    EXPECT_KEEL_OK(keel_comm_abort(own.comm));
    EXPECT_EQ(call(), KEEL_ABORTED) << keel_last_error();
    EXPECT_KEEL_OK(keel_free(own.device, data));
  });
}

}  // namespace
