// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts, by KEEL_HOST_ID, that go on after the end of a host or of the server.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/testing/shrink_job.h"

namespace keel::testing {
namespace {

TEST(ShrinkOfHostsTest, RanksGoOnAfterAHostIsKilled) {
  Job job("abba");
  job.run();
  const std::vector<uint32_t> before = job.left();
  job.kill(1);
  job.kill(2);
  job.expect_failures("KEEL_RANK_FAILED");
  job.tell("shrink");
  job.expect_shrunk(before, 2);  // on one host from now on
  job.tell("shrink");
  job.expect_shrunk(job.left(), 3);
}

// The communicator that the survivors make gets UCX wires of its own.
TEST(ShrinkOfHostsTest, RanksGoOnByUcxAfterARankIsKilled) {
  if (dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) {
    GTEST_SKIP() << "libucp.so.0 cannot be opened (package libucx0)";
  }
  setenv("KEEL_WIRE", "ucx", 1);
  setenv("UCX_TLS", "tcp", 0);
  Job job("abca");
  job.run();
  std::vector<uint32_t> before = job.left();
  job.kill(1);
  job.expect_failures("rank 1");
  job.tell("shrink");
  job.expect_shrunk(before, 2);
  before = job.left();
  job.kill(0);  // the server
  job.tell("shrink");
  job.expect_shrunk(before, 3);
  unsetenv("KEEL_WIRE");
}

// The process of rank 0 serves the job, and that of rank 1 succeeds it.
TEST(ShrinkOfHostsTest, RanksGoOnAfterTheServerIsKilled) {
  Job job("abba");
  job.run();
  const std::vector<uint32_t> before = job.left();
  job.kill(0);
  job.expect_failures("rank 0");
  job.tell("shrink");
  job.expect_shrunk(before, 2);
  EXPECT_EQ(job.ask(3, "kill_at agreed"), "armed");  // of the new job, whose server is rank 1
  const std::vector<uint32_t> then = job.left();
  job.tell("shrink");
  job.remove(3);
  job.expect_shrunk(then, 3);
}

TEST(ShrinkOfHostsTest, RanksGoOnAfterTheServersHostAndItsSuccessorAreKilled) {
  Job job("aabb");
  job.run();
  const std::vector<uint32_t> before = job.left();
  for (const uint32_t rank : {0, 1, 2}) job.kill(rank);
  job.expect_failures("KEEL_RANK_FAILED");
  job.tell("shrink");
  job.expect_shrunk(before, 2);
}

// At the later steps: ShrinkDecisionTest.
TEST(ShrinkOfHostsTest, RanksGoOnWhenTheSuccessorEndsToo) {
  Job job("abab");
  const std::vector<uint32_t> before = job.left();
  job.kill(0);
  ASSERT_EQ(job.ask(1, "kill_at agreed"), "armed");
  job.tell("shrink");
  job.remove(1);
  job.expect_shrunk(before, 2);
}

// The server has told a part of the ranks that they have met, or that the group is final.
class ShrinkDecisionTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(ShrinkDecisionTest, RanksStayTogetherWhenTheServerEndsAmidIt) {
  const auto [hosts, step] = GetParam();
  Job job(hosts);
  job.kill(0);
  ASSERT_EQ(job.ask(1, std::string("kill_at ") + step), "armed");
  job.tell("go_on");
  job.remove(1);
  job.expect_together();
}

// The ranks are on two hosts, or on one at last.
INSTANTIATE_TEST_SUITE_P(Steps, ShrinkDecisionTest,
                         ::testing::Combine(::testing::Values("ababa", "abbbb"),
                                            ::testing::Values("told 2", "joined", "decided 2")));

// Ranks 0 and 2 of four, ranks 1 and 3 among themselves.
TEST(ShrinkOfHostsTest, PartShrinksWithoutTheOtherRanks) {
  Job job("aabb");
  for (const uint32_t rank : job.left()) job[rank].write_line("split " + std::to_string(rank % 2));
  for (const uint32_t rank : job.left()) {
    EXPECT_EQ(job[rank].read_line(), fmt::format("rank {} of 2, epoch 1, were 0 1", rank / 2));
  }
  job.kill(1);
  EXPECT_EQ(job.ask(3, "shrink"), "rank 0 of 1, epoch 2, were 1");
  EXPECT_EQ(job.ask(3, "sum"), "8");
}

}  // namespace
}  // namespace keel::testing
