// SPDX-License-Identifier: Apache-2.0
#include "collectives/adaptive_spin.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

// Number of waits that a call skips after |in_vain| more waits in vain.
uint32_t skipped_after(AdaptiveSpin* spin, int in_vain) {
  for (int wait = 0; wait < in_vain; ++wait) {
    while (spin->turns() == 0) spin->note(false);
    spin->note(false);
  }
  uint32_t skipped = 0;
  for (; spin->turns() == 0; ++skipped) spin->note(false);
  return skipped;
}

TEST(AdaptiveSpinTest, WaitsInVainAreSkippedTwiceAsOftenEachTime) {
  AdaptiveSpin spin(WaitPolicy(/*oversubscribed=*/true));
  EXPECT_EQ(spin.turns(), WaitPolicy(true).turns_before_worker());
  EXPECT_EQ(skipped_after(&spin, 1), 0u);
  EXPECT_EQ(skipped_after(&spin, 1), 1u);
  EXPECT_EQ(skipped_after(&spin, 1), 3u);
  EXPECT_EQ(skipped_after(&spin, 1), 7u);
  EXPECT_EQ(skipped_after(&spin, 10), 31u);
}

TEST(AdaptiveSpinTest, PeersThatComeRestoreTheBudget) {
  AdaptiveSpin spin(WaitPolicy(/*oversubscribed=*/true));
  EXPECT_EQ(skipped_after(&spin, 10), 31u);
  spin.note(true);
  EXPECT_EQ(skipped_after(&spin, 1), 0u);
}

}  // namespace
}  // namespace keel
