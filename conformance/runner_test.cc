// SPDX-License-Identifier: Apache-2.0
#include "conformance/runner.h"

#include <gtest/gtest.h>

namespace keel::conformance {
namespace {

TEST(RunnerTest, TimeoutGrowsWithTheThreadsPerCore) {
  EXPECT_EQ(timeout_for_load(0, 2), 20u);
  EXPECT_EQ(timeout_for_load(4, 2), 20u);
  EXPECT_EQ(timeout_for_load(6, 2), 30u);
  EXPECT_EQ(timeout_for_load(18, 2), 60u);
  EXPECT_EQ(timeout_for_load(18, 64), 20u);
  EXPECT_EQ(timeout_for_load(1, 0), 20u);  // an unknown number of cores
}

}  // namespace
}  // namespace keel::conformance
