// SPDX-License-Identifier: Apache-2.0
// Communicators that form while the caller goes on: keel/comm_start.h.
#include <gtest/gtest.h>
#include <keel/comm_start.h>
#include <keel/rank_status.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/testing/sum_of_ranks.h"
#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace keel::testing {
namespace {

constexpr uint32_t kWorld = 2;
constexpr uint64_t kCount = 1000;

class CommStartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_KEEL_OK(init_test_devices(kWorld));
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_device_find(test_device(rank).c_str(), &devices_[rank]));
    }
    ASSERT_KEEL_OK(keel_unique_id_create(&id_));
  }
  void TearDown() override { EXPECT_KEEL_OK(keel_shutdown()); }

  keel_comm start(uint32_t rank, int64_t timeout_ns = 0) {
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = timeout_ns;
    keel_comm comm = {};
    EXPECT_KEEL_OK(keel_comm_init_rank_start(devices_[rank], &id_, rank, kWorld, &options, &comm));
    return comm;
  }
  keel_comm join(uint32_t rank) {
    keel_comm comm = {};
    EXPECT_KEEL_OK(keel_comm_init_rank(devices_[rank], &id_, rank, kWorld, nullptr, &comm));
    return comm;
  }
  // Sums rank + 1 over all ranks.
  void expect_sums(const std::vector<keel_comm>& comms) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < comms.size(); ++rank) {
      threads.emplace_back([this, rank, comm = comms[rank]] {
        expect_sum_of_ranks(devices_[rank], comm, rank, kCount, 3);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::array<keel_device, kWorld> devices_ = {};
  keel_unique_id id_ = {};
};

TEST_F(CommStartTest, OneThreadStartsAllRanks) {
  const std::vector<keel_comm> comms = {start(0), start(1)};
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_comm_wait_ready(comms[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_comm_async_error(comms[rank]));
    uint32_t own = 0;
    uint32_t world = 0;
    EXPECT_KEEL_OK(keel_comm_rank(comms[rank], &own, &world));
    EXPECT_EQ(own, rank);
    EXPECT_EQ(world, kWorld);
  }
  expect_sums(comms);
  for (const keel_comm comm : comms) {
    EXPECT_KEEL_OK(keel_comm_destroy(comm));
    EXPECT_EQ(keel_comm_destroy(comm), KEEL_INVALID_HANDLE);
    EXPECT_EQ(keel_comm_async_error(comm), KEEL_INVALID_HANDLE);
  }
}

TEST_F(CommStartTest, StartedRankMeetsOneThatBlocks) {
  const keel_comm started = start(0);
  const keel_comm joined = join(1);
  EXPECT_KEEL_OK(keel_comm_wait_ready(joined, 0));  // formed by a blocking function
  ASSERT_KEEL_OK(keel_comm_wait_ready(started, KEEL_TIMEOUT_DEFAULT));
  expect_sums({started, joined});
  EXPECT_KEEL_OK(keel_comm_destroy(started));
  EXPECT_KEEL_OK(keel_comm_destroy(joined));
}

TEST_F(CommStartTest, UseBeforeFormedIsRefusedAndCountsAsNoOperation) {
  const keel_comm comm = start(0);
  keel_stream stream = {};
  ASSERT_KEEL_OK(keel_stream_create(devices_[0], 0, &stream));
  uint32_t number = 0;
  keel_comm made = {};
  uint32_t memory = 0;
  EXPECT_EQ(keel_comm_async_error(comm), KEEL_NOT_READY);
  EXPECT_FAILS(KEEL_TIMED_OUT, "rank 0 of 2 has not formed in time", keel_comm_wait_ready(comm, 0));
  const std::vector<std::function<keel_status()>> calls = {
      [&] { return keel_comm_rank(comm, &number, &number); },
      [&] { return keel_comm_timeout_set(comm, 0); },
      [&] { return keel_comm_finalize(comm, 0); },
      [&] { return keel_comm_split(comm, 0, 0, nullptr, &made); },
      [&] { return keel_comm_rank_status(comm, 1); },
      [&] { return keel_barrier(comm, stream); },
      [&] { return keel_all_reduce(comm, &memory, &memory, 1, KEEL_UINT32, KEEL_SUM, stream); },
  };
  for (const auto& call : calls) {
    EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "rank 0 of 2 is still forming", call());
  }
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  const keel_comm other = join(1);
  ASSERT_KEEL_OK(keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT));
  expect_sums({comm, other});
}

TEST_F(CommStartTest, MissingRankIsNamedAtTheDeadline) {
  const keel_comm comm = start(0, /*timeout_ns=*/20'000'000);
  EXPECT_FAILS(KEEL_TIMED_OUT, "rank 1 of 2 has not come",
               keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT));
  EXPECT_EQ(keel_comm_async_error(comm), KEEL_TIMED_OUT);
  uint32_t number = 0;
  EXPECT_FAILS(KEEL_TIMED_OUT, "rank 1 of 2 has not come", keel_comm_rank(comm, &number, &number));
  EXPECT_KEEL_OK(keel_comm_abort(comm));
  EXPECT_EQ(keel_comm_async_error(comm), KEEL_TIMED_OUT) << "the first failure stays";
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
  EXPECT_EQ(keel_comm_destroy(comm), KEEL_INVALID_HANDLE);
}

TEST_F(CommStartTest, DestroyEndsTheFormation) {
  const keel_comm comm = start(0);
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
  EXPECT_EQ(keel_comm_async_error(comm), KEEL_INVALID_HANDLE);
  // Ranks that have met each other, and still wait for a third.
  ASSERT_KEEL_OK(keel_unique_id_create(&id_));
  std::array<keel_comm, 2> waiting = {};
  for (uint32_t rank = 0; rank < waiting.size(); ++rank) {
    ASSERT_KEEL_OK(
        keel_comm_init_rank_start(devices_[rank], &id_, rank, 3, nullptr, &waiting[rank]));
  }
  for (const keel_comm each : waiting) EXPECT_KEEL_OK(keel_comm_destroy(each));
}

TEST_F(CommStartTest, AbortEndsTheFormation) {
  const keel_comm comm = start(1);
  EXPECT_KEEL_OK(keel_comm_abort(comm));
  EXPECT_EQ(keel_comm_async_error(comm), KEEL_ABORTED);
  EXPECT_FAILS(KEEL_ABORTED, "rank 1 of 2: the communicator was aborted while it formed",
               keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

TEST_F(CommStartTest, WaitingThreadSeesTheEnd) {
  const keel_comm comm = start(0);
  std::thread waiting([comm] {
    const keel_status status = keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT);
    EXPECT_TRUE(status == KEEL_ABORTED || status == KEEL_INVALID_HANDLE) << status;
  });
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
  waiting.join();
}

TEST_F(CommStartTest, ShutdownEndsTheFormation) {
  const keel_comm forming = start(0);
  id_ = {"no id"};
  const keel_comm failed = start(1);
  EXPECT_EQ(keel_comm_wait_ready(failed, KEEL_TIMEOUT_DEFAULT), KEEL_INVALID_ARGUMENT);
  ASSERT_KEEL_OK(keel_shutdown());
  EXPECT_EQ(keel_comm_async_error(forming), KEEL_FAILED_PRECONDITION);
  ASSERT_KEEL_OK(init_test_devices(kWorld));
  EXPECT_EQ(keel_comm_async_error(forming), KEEL_INVALID_HANDLE);
  EXPECT_EQ(keel_comm_destroy(failed), KEEL_INVALID_HANDLE);
}

TEST_F(CommStartTest, WrongArgumentsAreRefusedAtOnceAndAWrongIdLater) {
  keel_comm comm = {};
  const auto call = [&](keel_device device, const keel_unique_id* id, uint32_t rank, uint32_t world,
                        keel_comm* out) {
    return keel_comm_init_rank_start(device, id, rank, world, nullptr, out);
  };
  EXPECT_EQ(call(devices_[0], nullptr, 0, 2, &comm), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(call(devices_[0], &id_, 0, 2, nullptr), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(call(devices_[0], &id_, 2, 2, &comm), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(call(devices_[0], &id_, 0, 0, &comm), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(call({0}, &id_, 0, 2, &comm), KEEL_INVALID_HANDLE);
  EXPECT_EQ(keel_comm_init_env_start(devices_[0], nullptr, nullptr), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_comm_wait_ready({7}, 0), KEEL_INVALID_HANDLE);
  EXPECT_EQ(comm.id, 0u);
  const keel_unique_id wrong = {"no id"};
  ASSERT_KEEL_OK(call(devices_[0], &wrong, 0, 2, &comm));
  EXPECT_EQ(keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT), KEEL_INVALID_ARGUMENT);
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

TEST_F(CommStartTest, LaunchedRankStarts) {
  const std::string name = "comm_start_test-" + std::to_string(getpid());
  setenv("KEEL_BOOTSTRAP", name.c_str(), 1);
  for (const char* variable : {"KEEL_RANK", "KEEL_LOCAL_RANK"}) setenv(variable, "0", 1);
  for (const char* variable : {"KEEL_WORLD", "KEEL_LOCAL_WORLD"}) setenv(variable, "1", 1);
  keel_comm comm = {};
  ASSERT_KEEL_OK(keel_comm_init_env_start(devices_[0], nullptr, &comm));
  EXPECT_KEEL_OK(keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
  for (const char* variable :
       {"KEEL_BOOTSTRAP", "KEEL_RANK", "KEEL_LOCAL_RANK", "KEEL_WORLD", "KEEL_LOCAL_WORLD"}) {
    unsetenv(variable);
  }
}

TEST_F(CommStartTest, ForkedChildIsRefused) {
  const keel_comm comm = start(0);
  const pid_t child = fork();
  if (child == 0) {
    keel_comm made = {};
    const bool are_refused =
        keel_comm_wait_ready(comm, 0) == KEEL_FORKED &&
        keel_comm_async_error(comm) == KEEL_FORKED && keel_comm_destroy(comm) == KEEL_FORKED &&
        keel_comm_init_rank_start(devices_[0], &id_, 0, 2, nullptr, &made) == KEEL_FORKED &&
        keel_comm_init_env_start(devices_[0], nullptr, &made) == KEEL_FORKED;
    _exit(are_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const keel_comm other = join(1);
  ASSERT_KEEL_OK(keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT));
  expect_sums({comm, other});
}

// Handles of ended formations are free for others.
TEST_F(CommStartTest, ManyFormationsLeaveNothingBehind) {
  for (int round = 0; round < 50; ++round) {
    ASSERT_KEEL_OK(keel_unique_id_create(&id_));
    const keel_comm comm = start(0);
    if (round % 2 == 0) {
      EXPECT_EQ(keel_comm_async_error(comm), KEEL_NOT_READY);
      EXPECT_KEEL_OK(keel_comm_destroy(comm));
      continue;
    }
    const keel_comm other = start(1);
    ASSERT_KEEL_OK(keel_comm_wait_ready(comm, KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_comm_wait_ready(other, KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_comm_destroy(comm));
    EXPECT_KEEL_OK(keel_comm_destroy(other));
  }
}

}  // namespace
}  // namespace keel::testing
