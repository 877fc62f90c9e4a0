// SPDX-License-Identifier: Apache-2.0
// Ranks that go on after a failure: threads, processes of one host, and of several by KEEL_HOST_ID.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <keel/shrink.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "collectives/testing/shrink_job.h"

namespace keel::testing {
namespace {

class ShrinkTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ShrinkTest, RanksGoOnAfterOneIsKilledInACollective) {
  Job job(GetParam());
  const auto passed_since = [](std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  };
  auto notice = std::chrono::milliseconds(0);
  auto longest = std::chrono::milliseconds(0);
  uint64_t epoch = 1;
  for (const uint32_t victim : {3u, 1u}) {
    job.run();
    const std::vector<uint32_t> before = job.left();
    const auto killed = std::chrono::steady_clock::now();
    job.kill(victim);
    job.expect_failures("KEEL_RANK_FAILED");
    notice = std::max(notice, passed_since(killed));
    job.tell("shrink");
    job.expect_shrunk(before, ++epoch);
    longest = std::max(longest, passed_since(killed));
    if (HasFailure()) return;
  }
  std::printf(
      "longest from a kill to the last notice: %lld ms, to the next all_reduce's end: %lld\n",
      static_cast<long long>(notice.count()), static_cast<long long>(longest.count()));
}

struct End {
  std::string step;
  uint32_t victim;
  uint64_t epoch;  // of the others' group
};

TEST_P(ShrinkTest, RanksGoOnWhileOneMoreEndsAtAnyStep) {
  // The lowest rank of one host makes the segment. Between hosts its process serves, and must live;
  // the ranks have met in epoch 2 before a victim of the last steps ends.
  const std::vector<End> on_one_host = {{"voted", 0, 2}, {"offered", 0, 2}, {"entered", 0, 2},
                                        {"ended", 3, 2}, {"agreed", 3, 2},  {"entered", 3, 2}};
  const std::vector<End> between_hosts = {
      {"ended", 3, 2}, {"agreed", 2, 2}, {"joined", 3, 3}, {"entered", 3, 3}};
  for (const End& end : std::string(GetParam()) == "----" ? on_one_host : between_hosts) {
    if (kIsSlow && end.step != "agreed" && end.step != "entered") continue;
    SCOPED_TRACE(fmt::format("rank {} at '{}'", end.victim, end.step));
    Job job(GetParam());
    const std::vector<uint32_t> before = job.left();
    job.kill(1);
    ASSERT_EQ(job.ask(end.victim, "kill_at " + end.step), "armed");
    job.tell("shrink");
    job.remove(end.victim);
    job.expect_shrunk(before, end.epoch);
    if (HasFailure()) return;
  }
}

TEST_P(ShrinkTest, StoppedRankIsLeftOutAndFenced) {
  Job job(GetParam());
  const std::vector<uint32_t> before = job.left();
  job.tell("timeout " + std::to_string(kAbsentMs));
  for (const uint32_t rank : before) ASSERT_EQ(job[rank].read_line(), "set");
  job.run();
  ASSERT_EQ(::kill(job[2].pid(), SIGSTOP), 0);
  job.remove(2);
  job.expect_failures("KEEL_TIMED_OUT");
  job.tell(fmt::format("shrink 100000 {}", kAbsentMs));
  job.expect_shrunk(before, 2);
  ASSERT_EQ(::kill(job[2].pid(), SIGCONT), 0);
  expect_says("KEEL_", job[2].read_line());  // of its loop
  expect_says("KEEL_FAILED_PRECONDITION", job.ask(2, "shrink"));
  job.tell("sum");
  for (const uint32_t rank : job.left()) EXPECT_EQ(job[rank].read_line(), "11");
}

TEST_P(ShrinkTest, RankThatStopsBetweenThePhasesIsLeftOut) {
  if (kIsSlow) GTEST_SKIP() << "half a minute of waiting, which the release build tests";
  Job job(GetParam());
  const std::vector<uint32_t> before = job.left();
  job.kill(1);
  ASSERT_EQ(job.ask(3, "stop_at agreed"), "armed");
  job.tell(fmt::format("shrink 100000 {}", kAbsentMs));
  job.remove(3);
  job.expect_shrunk(before, 2);
  ASSERT_EQ(::kill(job[3].pid(), SIGCONT), 0);
  expect_says("KEEL_FAILED_PRECONDITION", job[3].read_line());
}

TEST_P(ShrinkTest, DeadlineNamesTheRanksThatDidNotCall) {
  Job job(GetParam());
  const std::vector<uint32_t> before = job.left();
  job.remove(2);
  job.tell("shrink 1000");
  job.expect_failures("rank 2 (cpu:0");
  for (const uint32_t rank : before) job[rank].write_line("shrink");
  job.add(2);
  job.expect_shrunk(before, 2);
}

TEST_P(ShrinkTest, WholeCommunicatorShrinksToAllItsRanks) {
  Job job(GetParam());
  job.tell("shrink");
  job.expect_shrunk(job.left(), 2);
}

TEST_P(ShrinkTest, AbortedCommunicatorShrinksToAllItsRanks) {
  Job job(GetParam());
  expect_says("KEEL_OK", job.ask(2, "abort"));
  job.tell("shrink");
  job.expect_shrunk(job.left(), 2);
}

INSTANTIATE_TEST_SUITE_P(Hosts, ShrinkTest, ::testing::Values("----", "aabb"),
                         [](const auto& info) {
                           return info.param[0] == '-' ? "OneHost" : "TwoHosts";
                         });

// ---- threads --------------------------------------------------------------------

class ShrinkOfThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    init.default_timeout_ns = 100 * kSecond;
    init.backends = "cpu";
    ASSERT_EQ(keel_init(&init), KEEL_OK) << keel_last_error();
    ASSERT_EQ(keel_device_get(0, &device_), KEEL_OK);
    std::array<keel_device, 4> devices;
    devices.fill(device_);
    ASSERT_EQ(keel_comm_init_all(devices.data(), 4, nullptr, comms_.data()), KEEL_OK);
  }
  void TearDown() override { EXPECT_EQ(keel_shutdown(), KEEL_OK); }

  keel_device device_ = {};
  std::array<keel_comm, 4> comms_ = {};
};

TEST_F(ShrinkOfThreadsTest, RanksGoOnAfterOneAbortsAndLeaves) {
  std::array<Rank, 4> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ranks[rank].number = rank;
    ranks[rank].device = device_;
    ranks[rank].comm = comms_[rank];
    ASSERT_EQ(keel_stream_create(device_, 0, &ranks[rank].stream), KEEL_OK);
    ASSERT_EQ(keel_alloc(device_, KEEL_MEMORY_DEVICE, kCount * 4, &ranks[rank].data), KEEL_OK);
  }
  std::array<std::string, 4> said;
  std::array<std::string, 4> sums;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Rank& self = ranks[rank];
      if (rank == 2) {
        keel_comm_abort(self.comm);
        keel_comm_destroy(self.comm);
        return;
      }
      const std::string failed = sum(self);
      if (failed.find("KEEL_ABORTED") == std::string::npos) {
        said[rank] = failed;
        return;
      }
      said[rank] = shrink(self, 100'000, 0);
      sums[rank] = sum(self);
      keel_comm_destroy(self.comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint32_t rank : {0u, 1u, 3u}) {
    EXPECT_EQ(said[rank], fmt::format("rank {} of 3, epoch 2, were 0 1 3", rank == 3 ? 2 : rank));
    EXPECT_EQ(sums[rank], "11");
  }
}

TEST_F(ShrinkOfThreadsTest, WrongArgumentsAreRefused) {
  keel_comm left = {};
  EXPECT_EQ(keel_comm_shrink({0}, 0, 0, nullptr, &left), KEEL_INVALID_HANDLE);
  EXPECT_EQ(keel_comm_shrink(comms_[0], 0, 0, nullptr, nullptr), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_comm_shrink(comms_[0], 0, -1, nullptr, &left), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_comm_shrink(comms_[0], -7, 0, nullptr, &left), KEEL_INVALID_ARGUMENT);
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.chunk_bytes = 5;
  EXPECT_EQ(keel_comm_shrink(comms_[0], 0, 0, &options, &left), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_comm_async_error(comms_[0]), KEEL_OK) << "a refused call ended the communicator";
  uint32_t count = 3;
  std::array<uint32_t, 4> ranks = {};
  EXPECT_EQ(keel_comm_survivors(comms_[0], ranks.data(), &count, nullptr), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(keel_comm_survivors(comms_[0], nullptr, nullptr, nullptr), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_comm_survivors(comms_[3], nullptr, &count, nullptr), KEEL_OK);
  EXPECT_EQ(count, 4u);
}

}  // namespace
}  // namespace keel::testing
