// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wait_context.h"

#include <gtest/gtest.h>

#include <atomic>

namespace keel {
namespace {

TEST(WaitContext, SpinsLessWhereItWasInVain) {
  const std::atomic<bool> never{false};
  WaitContext wait_context(/*timeout_ns=*/0, never);
  EXPECT_EQ(wait_context.spins(200), 200u);
  wait_context.note_spins(false);
  EXPECT_EQ(wait_context.spins(200), 100u);
  wait_context.note_spins(false);
  EXPECT_EQ(wait_context.spins(200), 50u);
  wait_context.note_spins(true);
  EXPECT_EQ(wait_context.spins(200), 100u);
  for (int wait = 0; wait < 100; ++wait) wait_context.note_spins(false);
  EXPECT_EQ(wait_context.spins(200), 0u);
  for (int wait = 0; wait < 100; ++wait) wait_context.note_spins(true);
  EXPECT_EQ(wait_context.spins(200), 200u);
}

}  // namespace
}  // namespace keel
