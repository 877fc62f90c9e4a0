// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/spin_budget.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(SpinBudgetTest, WaitInVainHalvesAndSuccessDoubles) {
  SpinBudget budget(/*most_halvings=*/16);
  EXPECT_EQ(budget.turns(200), 200u);
  budget.note(false);
  EXPECT_EQ(budget.turns(200), 100u);
  budget.note(false);
  EXPECT_EQ(budget.turns(200), 50u);
  budget.note(true);
  EXPECT_EQ(budget.turns(200), 100u);
  for (int wait = 0; wait < 100; ++wait) budget.note(false);
  EXPECT_EQ(budget.turns(200), 0u);
  for (int wait = 0; wait < 100; ++wait) budget.note(true);
  EXPECT_EQ(budget.turns(200), 200u);
}

TEST(SpinBudgetTest, BudgetIsHalvedSoOften) {
  SpinBudget budget(/*most_halvings=*/2);
  for (int wait = 0; wait < 100; ++wait) budget.note(false);
  EXPECT_EQ(budget.turns(20), 5u);
  budget.note(true);
  EXPECT_EQ(budget.turns(20), 10u);
  budget.spend();
  EXPECT_EQ(budget.turns(20), 5u);
}

}  // namespace
}  // namespace keel
