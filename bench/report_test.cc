// SPDX-License-Identifier: Apache-2.0
// Tests reports of figures that were measured, left out, or taken without measuring.
#include "bench/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace keel::bench {
namespace {

using Json = nlohmann::ordered_json;

// Four times the copy's time, for the same bytes: 0.25 of the copy's rate.
Figure measured() {
  Figure figure;
  figure.name = "cuda_op/cast/float32/bound";
  figure.about = "a cast";
  figure.unit = Unit::kGigabytes;
  figure.timings = {{"Keel", 3e9, 1, {4, 4, 4}}, {"copy", 3e9, 1, {1, 1, 1}}};
  figure.subject = "Keel";
  figure.peer = figure.limit = "copy";
  figure.target = Target{0.85};
  return figure;
}

Json json_of(const Figure& figure) {
  return Json::parse(to_json(Machine(), {figure}, /*quick=*/false)).at("figures").at(0);
}

std::string row_of(const Figure& figure) {
  const std::string text = to_markdown(Machine(), {figure}, /*quick=*/false);
  const size_t begin = text.find("\n| " + figure.name) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Report, JudgesWhatWasMeasured) {
  EXPECT_EQ(json_of(measured()).at("met"), false);
  EXPECT_EQ(json_of(measured()).at("result").at("median"), 0.25);
  EXPECT_EQ(json_of(measured()).at("target").at("measure"), "ratio of rates");
  EXPECT_EQ(json_of(measured()).at("physical_limit").at("value"), 3);
  EXPECT_EQ(row_of(measured()),
            "| cuda_op/cast/float32/bound | 0.75 GB/s | copy: 3 GB/s | 0.250x [0.250, 0.250] | "
            "at least 0.85x | missed | copy: 3 GB/s |");
}

// Over a million calls, the few instructions of the surrounding program do not count.
TEST(Report, InstructionsAreWholeOnes) {
  Figure figure = measured();
  figure.unit = Unit::kNanoseconds;
  figure.measure = Measure::kDifference;
  figure.target = Target{1e10, 60};
  figure.instructions = Instructions{73.002, 13};
  EXPECT_EQ(json_of(figure).at("met"), true);
  figure.instructions = Instructions{74, 13};
  EXPECT_EQ(json_of(figure).at("met"), false);
}

TEST(Report, WhatIsLeftOutKeepsItsTarget) {
  Figure figure = measured();
  figure.timings.clear();
  figure.leave_out("no such GPU");
  EXPECT_EQ(json_of(figure).at("target").at("bound"), 0.85);
  EXPECT_TRUE(json_of(figure).at("met").is_null());
  EXPECT_EQ(row_of(figure),
            "| cuda_op/cast/float32/bound | skipped: no such GPU | | | at least 0.85x | "
            "not measured | copy |");
  // Without a target, only the reason is written.
  EXPECT_EQ(json_of(Figure::skip("x", "no such GPU")).size(), 2u);
}

TEST(Report, SmallSizesMeetNoTarget) {
  Figure figure = measured();
  figure.quick = true;
  EXPECT_TRUE(json_of(figure).at("met").is_null());
  EXPECT_NE(row_of(figure).find("| at least 0.85x | not measured |"), std::string::npos);
}

TEST(Report, AnEmulatedChipHasNoTimes) {
  Figure figure = measured();
  figure.emulated = true;
  const Json json = json_of(figure);
  EXPECT_EQ(json.at("emulated"), true);
  EXPECT_TRUE(json.at("result").is_null());
  EXPECT_TRUE(json.at("met").is_null());
  EXPECT_TRUE(json.at("physical_limit").at("value").is_null());
  for (const Json& contender : json.at("contenders")) {
    EXPECT_EQ(contender.at("rounds"), 3);
    for (const char* time : {"median", "best", "median_seconds", "min_seconds"}) {
      EXPECT_FALSE(contender.contains(time)) << contender;
    }
  }
  EXPECT_EQ(row_of(figure),
            "| cuda_op/cast/float32/bound | taken, on an emulated chip | copy | | at least 0.85x | "
            "not measured | copy |");
  const std::string text = to_markdown(Machine(), {figure}, /*quick=*/false) + to_line(figure);
  EXPECT_EQ(text.find("GB/s"), std::string::npos) << text;
}

}  // namespace
}  // namespace keel::bench
