// SPDX-License-Identifier: Apache-2.0
// Tests the calls that a tool's injected library receives from the sample.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using Counts = std::map<std::string, int>;

// The injected library's log.
struct Told {
  Counts ranges;                                        // by name
  std::set<uint64_t> open;                              // not yet ended
  int ended_unopened = 0;                               // includes ranges ended twice
  std::vector<std::pair<uint64_t, std::string>> marks;  // payload and text
};

class NvtxRangesTest : public testing::Test {
 protected:
  ~NvtxRangesTest() override { std::filesystem::remove(file_); }

  // Runs the sample with |injection| as the tool's library; returns the exit status.
  int run(const std::string& arguments, const std::string& injection) const {
    const std::string environment =
        "NVTX_INJECTION64_PATH='" + injection + "' NVTX_INJECTION_LOG='" + file_.string() + "' ";
    return exit_status("env " + environment + "'" KEEL_NVTX_RANGES "' " + arguments);
  }
  static int exit_status(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Told told() const {
    Told told;
    std::ifstream file(file_);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string what;
      uint64_t number = 0;
      std::string text;
      words >> what >> number >> std::ws;
      std::getline(words, text);
      if (what == "start") {
        ++told.ranges[text];
        told.open.insert(number);
      } else if (what == "end") {
        told.ended_unopened += told.open.erase(number) == 0 ? 1 : 0;
      } else if (what == "mark") {
        told.marks.emplace_back(number, text);
      } else {
        ADD_FAILURE() << line;
      }
    }
    return told;
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("keel-nvtx-" + std::to_string(getpid()) + ".log");
};

TEST_F(NvtxRangesTest, EachCallThatEnqueuesIsARange) {
  ASSERT_EQ(run("cpu '" KEEL_SAXPY "'", KEEL_NVTX_INJECTION), 0);
  const Told told = this->told();
  // Two ranks.
  EXPECT_EQ(told.ranges,
            (Counts{{"add", 2}, {"all_reduce", 2}, {"copy", 4}, {"fill", 2}, {"kernel", 2}}));
  EXPECT_TRUE(told.open.empty());
  EXPECT_EQ(told.ended_unopened, 0);
}

TEST_F(NvtxRangesTest, AllocationsAreMarks) {
  ASSERT_EQ(run("cpu", KEEL_NVTX_INJECTION), 0);
  const Told told = this->told();
  // Each rank allocates and frees three buffers.
  EXPECT_GE(told.marks.size(), 12u);
  uint64_t most = 0;
  for (const auto& [bytes, text] : told.marks) {
    EXPECT_EQ(text, "cpu:0 allocated");
    most = std::max(most, bytes);
  }
  EXPECT_GE(most, 6u * (1 << 16) * sizeof(float));
  EXPECT_EQ(told.ranges.count("kernel"), 0u);
}

TEST_F(NvtxRangesTest, RunsWithoutATool) {
  EXPECT_EQ(exit_status("env -u NVTX_INJECTION64_PATH '" KEEL_NVTX_RANGES "' cpu"), 0);
  EXPECT_EQ(run("cpu", "/nowhere/injection.so"), 0);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
