// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/patience.h"

#include <gtest/gtest.h>

#include <atomic>

namespace keel {
namespace {

TEST(Patience, SpinsLessWhereItWasInVain) {
  const std::atomic<bool> never{false};
  Patience patience(/*timeout_ns=*/0, never);
  EXPECT_EQ(patience.spins(200), 200u);
  patience.note_spins(false);
  EXPECT_EQ(patience.spins(200), 100u);
  patience.note_spins(false);
  EXPECT_EQ(patience.spins(200), 50u);
  patience.note_spins(true);
  EXPECT_EQ(patience.spins(200), 100u);
  for (int wait = 0; wait < 100; ++wait) patience.note_spins(false);
  EXPECT_EQ(patience.spins(200), 0u);
  for (int wait = 0; wait < 100; ++wait) patience.note_spins(true);
  EXPECT_EQ(patience.spins(200), 200u);
}

}  // namespace
}  // namespace keel
