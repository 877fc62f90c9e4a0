// SPDX-License-Identifier: Apache-2.0
#include "collectives/premul_factors.h"

#include <gtest/gtest.h>

#include <set>

namespace keel {
namespace {

TEST(PremulFactorsTest, NumbersAreAboveAllReductions) {
  PremulFactors factors;
  keel_reduction reduction = 0;
  ASSERT_TRUE(factors.add(0.5, &reduction).ok());
  EXPECT_GE(reduction, PremulFactors::kFirst);
  ASSERT_NE(factors.find(reduction), nullptr);
  EXPECT_EQ(*factors.find(reduction), 0.5);
  for (const keel_reduction none : {0u, 5u, 16u, 255u, reduction + 1, UINT32_MAX}) {
    EXPECT_EQ(factors.find(none), nullptr) << none;
    EXPECT_FALSE(factors.remove(none)) << none;
  }
}

TEST(PremulFactorsTest, RemovedNumberIsRefusedAndNotSoonGivenOutAgain) {
  PremulFactors factors;
  std::set<keel_reduction> seen;
  for (int i = 0; i < 1000; ++i) {
    keel_reduction reduction = 0;
    ASSERT_TRUE(factors.add(i, &reduction).ok());
    EXPECT_TRUE(seen.insert(reduction).second) << reduction;
    EXPECT_EQ(*factors.find(reduction), i);
    EXPECT_TRUE(factors.remove(reduction));
    EXPECT_EQ(factors.find(reduction), nullptr);
    EXPECT_FALSE(factors.remove(reduction));
  }
}

TEST(PremulFactorsTest, RemovedOnesMakeRoom) {
  PremulFactors factors;
  keel_reduction first = 0;
  keel_reduction more = 0;
  ASSERT_TRUE(factors.add(1, &first).ok());
  for (uint32_t i = 1; i < PremulFactors::kMost; ++i) ASSERT_TRUE(factors.add(i, &more).ok());
  EXPECT_EQ(factors.add(2, &more).code(), KEEL_OUT_OF_RANGE);
  EXPECT_TRUE(factors.remove(first));
  ASSERT_TRUE(factors.add(3, &more).ok());
  EXPECT_EQ(*factors.find(more), 3);
  EXPECT_EQ(factors.find(first), nullptr);
}

}  // namespace
}  // namespace keel
