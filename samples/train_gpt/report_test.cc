// SPDX-License-Identifier: Apache-2.0
// Tests the reports of a training.
#include "samples/train_gpt/report.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace train_gpt {
namespace {

// An interval of a long training of a large model.
const Interval kLarge = {99000, 12.345, 1234.56, 1234567, 0.456, 59999};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Progress, FitsATerminalOf80Columns) {
  for (const Interval& interval : {kLarge, Interval{10, 2.5, 1.25, 900, 0.05, 61}}) {
    const std::string line = progress_line(interval, 100000, 79);
    EXPECT_LE(line.size(), 79u) << line;
    EXPECT_TRUE(has(line, "bits/byte")) << line;
    EXPECT_TRUE(has(line, "tok/s")) << line;
    EXPECT_TRUE(has(line, "left")) << line;
  }
  const std::string usual = progress_line({990, 2.345, 1.23, 12345, 0.456, 754}, 1000, 79);
  EXPECT_EQ(usual.substr(0, 6), "[##.] ");
  EXPECT_LE(usual.size(), 79u);
  EXPECT_TRUE(has(usual, "MFU 45.6 %")) << usual;
}

TEST(Progress, TheBarTakesWhatIsLeft) {
  const Interval half = {500, 2.345, 1.23, 12345, 0.456, 754};
  EXPECT_EQ(progress_line(half, 1000, 200).substr(0, 27), "[############............] ");
  const std::string line = progress_line(half, 1000, 0);
  EXPECT_EQ(line.substr(0, 5), "step ");
  const size_t bare = line.size() - 5;
  EXPECT_EQ(progress_line(half, 1000, bare + 6).substr(0, 6), "[#..] ");
  EXPECT_EQ(progress_line(half, 1000, bare + 5), line.substr(5));
  EXPECT_EQ(progress_line(half, 1000, 20), line.substr(5, 20));
}

TEST(Report, SaysWhatCouldNotBeMeasured) {
  Report report;
  report.devices = {{"cpu:0", "a CPU", 0, 1e12}, {"chip:0", "a chip", 1, std::nullopt}};
  report.steps = {{1, 2.0, 1.0, 0.5}};
  EXPECT_EQ(report.utilization(), std::nullopt);
  EXPECT_FALSE(has(progress_line(report.interval(0), 10, 0), "MFU"));
  std::ostringstream json;
  write_json(json, report);
  EXPECT_TRUE(has(json.str(), "\"mfu\": null")) << json.str();
  EXPECT_TRUE(has(json.str(), "\"roof_flops_per_second\": null"));
  report.devices[1].roof = 2e12;
  EXPECT_GT(report.utilization().value(), 0);
  EXPECT_EQ(report.roof(), 3e12);
}

}  // namespace
}  // namespace train_gpt
