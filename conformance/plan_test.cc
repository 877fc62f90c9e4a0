// SPDX-License-Identifier: Apache-2.0
#include "conformance/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

namespace keel::conformance {
namespace {

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
