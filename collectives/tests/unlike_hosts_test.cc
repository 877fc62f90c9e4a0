// SPDX-License-Identifier: Apache-2.0
// Hosts that differ in cores, page size, wall clock or wire.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <keel/keel.hpp>
#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/scripted_rank.h"
#include "collectives/testing/odd_host.h"
#include "collectives/testing/wire_cases.h"
#include "collectives/testing/wire_job.h"

namespace keel::testing {
namespace {

// ---- what the ranks run ---------------------------------------------------------

// Whether someone sets the wall clock.
bool is_clock_set() {
  const time_t passed = time(nullptr) - time(nullptr);
  return passed < -3000 || passed > 3000;
}

// The cases of the reference, on ranks of which some see other pages and another wall clock.
std::string odd_cases(const WireRank& self) {
  const bool is_odd = self.hosts[self.rank] == 'b';
  if (is_odd != (sysconf(_SC_PAGESIZE) == kLargePage)) return "the host has the wrong page size";
  if (is_odd != is_clock_set()) return "the host has the wrong wall clock";
  return cases(self);
}

// An all_reduce of 8 bytes among ranks of four hosts that share one core.
std::string shared_core(const WireRank& self) {
  const uint64_t count = 2;
  const keel::Buffer buffer(keel::Device(self.device), KEEL_MEMORY_DEVICE, count * sizeof(float));
  void* const data = buffer.data();
  if (keel_all_reduce(self.comm, data, data, count, KEEL_FLOAT32, KEEL_SUM, self.stream) !=
          KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  const std::string explained = explain(self.comm);
  for (const char* part : {"\"shares_processors\": true", "\"algorithm\": \"doubling\""}) {
    if (explained.find(part) == std::string::npos) return explained;
  }
  return "";
}

// The last rank does not come to a barrier. Says how the others get to know, and whether that was
// far before the deadline: the first rank whose deadline passes tells the others.
std::string absent_rank(const WireRank& self) {
  keel_status status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  const auto earliest =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(self.timeout_ns / 2);
  const bool is_absent = self.rank + 1 == self.world;
  if (status == KEEL_OK && !is_absent) status = keel_barrier(self.comm, self.stream);
  if (status == KEEL_OK && !is_absent) {
    status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  }
  const bool is_early = std::chrono::steady_clock::now() < earliest;
  say(std::string(keel_status_name(status)) + (is_early ? ", early: " : " ") + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

std::string never(const WireRank& /*self*/) {
  return "the ranks have met";
}

// ---- the jobs -------------------------------------------------------------------

class UnlikeHostsTest : public WireTest {};
INSTANTIATE_TEST_SUITE_P(Wires, UnlikeHostsTest, kWires, name_of_wire);

// The ranks of host b share one core, and those of host a have all cores of the machine: the hosts
// choose their own algorithms inside, and the same between them.
TEST_P(UnlikeHostsTest, UnequalCoresMatchReference) {
  WireJob("aabb", "cases", "cpu", /*staged=*/false, /*seconds=*/0,
          {{2, kOneCore, "1"}, {3, kOneCore, "1"}})
      .expect_success();
}

TEST_P(UnlikeHostsTest, SharedCoreMeansFewMessages) {
  WireJob("abcd", "shared_core", "cpu", /*staged=*/false, /*seconds=*/0, all_on_one_core(4))
      .expect_success();
}

// Host b has pages of 64 KiB, and someone sets its wall clock meanwhile.
TEST_P(UnlikeHostsTest, OtherPagesAndClocksMatchReference) {
  std::vector<RankVariable> variables;
  for (const size_t rank : {1, 3}) {
    for (const char* name : {kLargePages, kJumpingClock}) variables.push_back({rank, name, "1"});
  }
  for (const bool staged : {false, true}) {
    WireJob("abab", "odd_cases", "cpu", staged, /*seconds=*/0, variables).expect_success();
  }
}

TEST_P(UnlikeHostsTest, DeadlineHoldsWhileTheWallClockIsSet) {
  WireJob job("abc", "absent_rank", "cpu", /*staged=*/false, /*seconds=*/2,
              {{0, kJumpingClock, "1"}, {1, kJumpingClock, "1"}});
  for (const size_t rank : {0, 1}) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("TIMED_OUT barrier", line);
    EXPECT_SAYS("rank 2 (cpu:", line);
  }
  for (const size_t rank : {0, 1, 2}) job[rank].write_line("end");
  job.expect_success();
}

// The last rank alone has another wire than the parameter's.
TEST_P(UnlikeHostsTest, RankWithAnotherWireIsNamed) {
  if (!is_ucx_there()) GTEST_SKIP() << "libucp.so.0 cannot be opened (package libucx0)";
  WireJob job("abc", "never", "cpu", /*staged=*/false, /*seconds=*/0,
              {{2, "KEEL_WIRE", is_ucx() ? "tcp" : "ucx"}});
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("rank 2 (cpu:", line);
    EXPECT_SAYS("'ucx 1.", line);
    EXPECT_SAYS("'tcp'", line);
    EXPECT_EQ(job[rank].wait(), 1);
  }
}

// A file that is no library stands in for a machine without UCX.
TEST(HostsWithoutUcxTest, MissingLibraryIsNamed) {
  std::string folder = ::testing::TempDir() + "keel-no-ucx-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string file = folder + "/libucp.so.0";
  std::ofstream(file) << "not a library";
  const char* const known = getenv("LD_LIBRARY_PATH");
  const std::string before = known == nullptr ? "" : known;
  setenv("LD_LIBRARY_PATH", (folder + ":" + before).c_str(), 1);
  setenv("KEEL_WIRE", "ucx", 1);
  WireJob job("ab", "never");
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("KEEL_WIRE=ucx: UCX cannot be opened: ", line);
    EXPECT_SAYS(file, line);
    EXPECT_EQ(job[rank].wait(), 1);
  }
  unsetenv("KEEL_WIRE");
  if (known == nullptr) {
    unsetenv("LD_LIBRARY_PATH");
  } else {
    setenv("LD_LIBRARY_PATH", before.c_str(), 1);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

const std::map<std::string, WireProgram>& wire_programs() {
  static const std::map<std::string, WireProgram> programs = {{"cases", cases},
                                                              {"odd_cases", odd_cases},
                                                              {"shared_core", shared_core},
                                                              {"absent_rank", absent_rank},
                                                              {"never", never}};
  return programs;
}

}  // namespace keel::testing
