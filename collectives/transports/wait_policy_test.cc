// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wait_policy.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(WaitPolicyTest, PausesAreAsManyAsTheirTime) {
  EXPECT_EQ(pauses_in(0), 0u);
  const uint32_t turns = pauses_in(20'000);
  EXPECT_GT(turns, 0u);
  EXPECT_LE(turns, 200'000u);
  EXPECT_NEAR(pauses_in(200'000), 10.0 * turns, 10.0);
}

TEST(WaitPolicyTest, DedicatedWaitsSpinForATime) {
  const WaitPolicy policy(/*oversubscribed=*/false);
  EXPECT_EQ(policy.turns_before_park(), pauses_in(50'000));
  EXPECT_EQ(policy.turns_before_worker(), pauses_in(20'000));
}

TEST(WaitPolicyTest, OversubscribedWaitsYieldSoManyTimes) {
  const WaitPolicy policy(/*oversubscribed=*/true);
  EXPECT_EQ(policy.turns_before_park(), 200u);
  EXPECT_EQ(policy.turns_before_worker(), 100u);
}

TEST(WaitPolicyTest, SliceEndsAtTheDeadline) {
  EXPECT_EQ(WaitPolicy::slice_ns(Deadline::after(0)), 0);
  EXPECT_EQ(WaitPolicy::slice_ns(Deadline::after(3'600'000'000'000)), WaitPolicy::kSliceNs);
}

}  // namespace
}  // namespace keel
