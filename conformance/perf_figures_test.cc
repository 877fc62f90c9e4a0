// SPDX-License-Identifier: Apache-2.0
#include "conformance/perf_figures.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace keel::conformance {
namespace {

TEST(PerfFiguresTest, EventWaitIsAdvisedOnlyToAPluginWithoutIt) {
  EXPECT_NE(wait_hint(false).find("event_wait, which the plugin lacks"), std::string::npos);
  EXPECT_EQ(wait_hint(true).find("spares"), std::string::npos) << wait_hint(true);
  EXPECT_NE(wait_hint(std::nullopt).find("event_wait spares"), std::string::npos);
}

}  // namespace
}  // namespace keel::conformance
