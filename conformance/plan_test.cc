// SPDX-License-Identifier: Apache-2.0
#include "conformance/plan.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

namespace keel::conformance {
namespace {

class TakeFromReportTest : public testing::Test {
 protected:
  TakeFromReportTest() {
    report_.target.device = "chip:1";
    report_.settings.choice.ordinal = 1;
    report_.settings.choice.emulated = true;
    report_.settings.choice.kernels = "/kernels";
    report_.settings.seed = 7;
    report_.settings.timeout_seconds = 33;
    report_.profile = "full";
    report_.filter = "core/*";
    report_.every = 5;
    report_.results = {{"core/a", Outcome::kPass, 0, ""}, {"core/b", Outcome::kCrash, 0, "killed"}};
    report_.levels = summarise(report_.results, {{Level::kCore, Level::kAsync}, false, "", 0});
    report_.chosen = report_.results.size();
  }
  void SetUp() override {
    std::string file = std::filesystem::temp_directory_path() / "keel_plan_test_XXXXXX";
    const int descriptor = mkstemp(file.data());
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    options_.rerun_failed = file;
  }
  void TearDown() override { std::filesystem::remove(options_.rerun_failed); }

  bool take(const std::set<std::string>& given) {
    std::ofstream(options_.rerun_failed) << to_json_text(report_);
    return take_from_report([&](const char* option) { return given.count(option) != 0; }, &options_,
                            &error_);
  }

  Report report_;
  SessionOptions options_;
  std::string error_;
};

TEST_F(TakeFromReportTest, SettingsOfTheFailedRunHold) {
  ASSERT_TRUE(take({})) << error_;
  EXPECT_EQ(options_.failed, std::set<std::string>{"core/b"});
  EXPECT_EQ(options_.settings.seed, 7U);
  EXPECT_EQ(options_.settings.timeout_seconds, 33U);
  EXPECT_EQ(options_.settings.choice.ordinal, 1U);
  EXPECT_TRUE(options_.settings.choice.emulated);
  EXPECT_EQ(options_.settings.choice.kernels, "/kernels");
  EXPECT_EQ(options_.profile, "full");
  // The failed cases alone decide which cases run.
  EXPECT_EQ(options_.filter, "");
  EXPECT_EQ(options_.every, 1U);
  EXPECT_TRUE(options_.levels.empty());
}

TEST_F(TakeFromReportTest, CommandLineComesFirst) {
  options_.settings.seed = 8;
  options_.profile = "quick";
  ASSERT_TRUE(take({"--seed", "--profile"})) << error_;
  EXPECT_EQ(options_.settings.seed, 8U);
  EXPECT_EQ(options_.profile, "quick");
  EXPECT_EQ(options_.settings.timeout_seconds, 33U);
}

TEST_F(TakeFromReportTest, AfterAPluginThatDidNotLoadAllOfItsCasesRun) {
  report_.target.device = "";
  report_.results = {{"null/load", Outcome::kFail, 0, "no file"}};
  ASSERT_TRUE(take({})) << error_;
  EXPECT_TRUE(options_.failed.empty());
  EXPECT_EQ(options_.levels, (std::vector<std::string>{"core", "async"}));
  EXPECT_EQ(options_.filter, "core/*");
  EXPECT_EQ(options_.every, 5U);
  EXPECT_EQ(options_.settings.seed, 7U);
}

TEST_F(TakeFromReportTest, FailedLoadOfAnInstanceOfALoadedPluginIsOneCase) {
  report_.results = {{"null/load", Outcome::kFail, 0, "an alignment of 3"}};
  ASSERT_TRUE(take({})) << error_;
  EXPECT_EQ(options_.failed, std::set<std::string>{"null/load"});
}

TEST_F(TakeFromReportTest, ReportWithoutFailuresIsRefused) {
  report_.results.pop_back();
  EXPECT_FALSE(take({}));
  EXPECT_NE(error_.find("no case of "), std::string::npos) << error_;
}

// A plugin that knows the cases of one sample would pass all of them.
TEST(SelectCasesTest, SamplesWithAnotherFirstCaseAreDisjointAndCoverAll) {
  Discovery found;
  found.found.target.device = "chip:0";
  found.cases =
      std::make_shared<const JudgedCases>(found.found, PluginChoice(), 1, /*timeout_seconds=*/20);
  SessionOptions options;
  options.every = 23;
  std::multiset<std::string> all;
  for (options.first = 0; options.first < options.every; ++options.first) {
    Plan plan;
    std::string error;
    ASSERT_TRUE(parse_levels({"core", "ops"}, &plan.levels, &error)) << error;
    ASSERT_TRUE(select_cases(options, found, &plan, &error)) << error;
    EXPECT_TRUE(plan.filtered);
    all.insert(plan.ids.begin(), plan.ids.end());
  }
  options.every = 1;
  Plan whole;
  std::string error;
  ASSERT_TRUE(parse_levels({"core", "ops"}, &whole.levels, &error)) << error;
  ASSERT_TRUE(select_cases(options, found, &whole, &error)) << error;
  std::sort(whole.ids.begin(), whole.ids.end());
  EXPECT_EQ(std::vector<std::string>(all.begin(), all.end()), whole.ids);
}

TEST(SelectCasesTest, EachLevelHasACaseInEachSample) {
  Discovery found;
  found.found.target.device = "chip:0";
  found.cases =
      std::make_shared<const JudgedCases>(found.found, PluginChoice(), 1, /*timeout_seconds=*/20);
  SessionOptions options;
  options.every = 1'000'000;
  options.first = UINT32_MAX;
  Plan plan;
  std::string error;
  ASSERT_TRUE(parse_levels({"null", "core"}, &plan.levels, &error)) << error;
  ASSERT_TRUE(select_cases(options, found, &plan, &error)) << error;
  ASSERT_EQ(plan.ids.size(), 2U);
  EXPECT_EQ(level_of(plan.ids[0]), Level::kNull);
  EXPECT_EQ(level_of(plan.ids[1]), Level::kCore);
}

}  // namespace
}  // namespace keel::conformance
