// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/poll_budget.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

using std::chrono::seconds;

// The begin is in the future: the wait is short however busy the machine is.
PollBudget::Clock::time_point begin_of_short_wait() {
  return PollBudget::Clock::now() + seconds(3600);
}

PollBudget::Clock::time_point begin_of_long_wait() {
  return PollBudget::Clock::now() - seconds(1);
}

TEST(PollBudgetTest, LongWaitsEndPolling) {
  PollBudget budget;
  const uint32_t most = budget.polls();
  EXPECT_GT(most, 1u);
  budget.note_wait(begin_of_long_wait());
  EXPECT_EQ(budget.polls(), most / 2);
  for (int wait = 0; wait < 100; ++wait) budget.note_wait(begin_of_long_wait());
  EXPECT_EQ(budget.polls(), 0u) << "parks after the first poll";
}

TEST(PollBudgetTest, ShortWaitsBringPollingBack) {
  PollBudget budget;
  const uint32_t most = budget.polls();
  for (int wait = 0; wait < 100; ++wait) budget.note_wait(begin_of_long_wait());
  for (int wait = 0; wait < 100; ++wait) budget.note_wait(begin_of_short_wait());
  EXPECT_EQ(budget.polls(), most);
}

}  // namespace
}  // namespace keel
