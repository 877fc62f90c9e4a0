// SPDX-License-Identifier: Apache-2.0
// Tests that a trace of the sample shows gradients being summed while the devices compute.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;

struct Slice {
  int process;  // 0: the host; else a device
  int row;      // one of its streams
  double begin;
  double end;

  bool overlaps(const Slice& other) const { return begin < other.end && other.begin < end; }
};

std::vector<Slice> slices(const Json& trace, const std::string& name) {
  std::vector<Slice> found;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("ph", "") != "X" || event.value("name", "") != name) continue;
    const double begin = event.at("ts");
    found.push_back(
        {event.at("pid"), event.at("tid"), begin, begin + event.at("dur").get<double>()});
  }
  return found;
}

// Returns whether any rank's gradients are summed during its computation. A rank creates its
// compute stream right before the stream for sums.
bool any_hidden(const std::vector<Slice>& sums, const std::vector<Slice>& products) {
  for (const Slice& sum : sums) {
    for (const Slice& product : products) {
      const bool is_same_rank = sum.process == product.process && sum.row == product.row + 1;
      if (is_same_rank && sum.overlaps(product)) return true;
    }
  }
  return false;
}

class OverlapTrace : public testing::Test {
 protected:
  ~OverlapTrace() override { std::filesystem::remove(file_); }

  // Runs four steps of two ranks on the CPU.
  Json run() const {
    const char* const folder = std::getenv("KEEL_TEST_BIN");
    const std::string program = std::string(folder == nullptr ? "." : folder) + "/overlap";
    const std::string command = "KEEL_TRACE='" + file_.string() + "' " + program + " cpu 2";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    std::ifstream stream(file_);
    return Json::parse(stream, /*cb=*/nullptr, /*allow_exceptions=*/false);
  }

  const std::filesystem::path file_ = std::filesystem::temp_directory_path() /
                                      ("keel-overlap-" + std::to_string(getpid()) + ".json");
};

TEST_F(OverlapTrace, SumsGoOnWhileDevicesCompute) {
  const Json trace = run();
  ASSERT_TRUE(trace.is_object());
  constexpr size_t kRanks = 2;
  constexpr size_t kSteps = 4;
  constexpr size_t kLayers = 8;
  const std::vector<Slice> products = slices(trace, "matmul");
  EXPECT_EQ(products.size(), kRanks * kSteps * kLayers * 2);
  const std::vector<Slice> sums = slices(trace, "all_reduce");
  EXPECT_GE(sums.size(), kRanks * kSteps * (kLayers / 2 + 1));
  // In any of the four steps: on a busy machine a step may show no overlap.
  EXPECT_TRUE(any_hidden(sums, products));
  for (const Slice& product : products) EXPECT_GT(product.process, 0) << "not a device's";
}

}  // namespace
