// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/pause.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(Pause, TurnsAreAsManyAsTheirTime) {
  EXPECT_EQ(pauses_in(0), 0u);
  const uint32_t turns = pauses_in(20'000);
  EXPECT_GT(turns, 0u);
  EXPECT_LE(turns, 200'000u);
  EXPECT_NEAR(pauses_in(200'000), 10.0 * turns, 10.0);
}

}  // namespace
}  // namespace keel
