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

TEST(PollBudgetTest, RestsAfterALongYield) {
  using std::chrono::microseconds;
  PollBudget budget;
  const PollBudget::Clock::time_point begin = PollBudget::Clock::now();
  EXPECT_TRUE(budget.may_yield(begin));
  budget.note_yield(begin, begin + microseconds(50));
  EXPECT_TRUE(budget.may_yield(begin + microseconds(51))) << "another rank had its turn";
  const PollBudget::Clock::time_point end = begin + microseconds(3000);
  budget.note_yield(begin, end);
  EXPECT_FALSE(budget.may_yield(end + microseconds(4 * 3000)));
  EXPECT_TRUE(budget.may_yield(end + microseconds(6 * 3000)));
}

TEST(PollBudgetTest, RestsLongerWhereYieldsStayLong) {
  using std::chrono::milliseconds;
  PollBudget budget;
  PollBudget::Clock::time_point now = PollBudget::Clock::now();
  // Yields for as long as |budget| lets it, each of 3 ms, and returns the rest after the last one.
  const auto rest_after_long_yield = [&] {
    while (!budget.may_yield(now)) now += milliseconds(1);
    const PollBudget::Clock::time_point end = now + milliseconds(3);
    budget.note_yield(now, end);
    for (now = end; !budget.may_yield(now);) now += milliseconds(1);
    return now - end;
  };
  PollBudget::Clock::duration rest = rest_after_long_yield();
  const PollBudget::Clock::duration least = rest;
  for (int yield = 0; yield < 20; ++yield) {
    const PollBudget::Clock::duration next = rest_after_long_yield();
    EXPECT_GE(next, rest);
    rest = next;
  }
  EXPECT_GE(rest, 100 * milliseconds(3)) << "a hundredth of the time is lost at most";
  now += 2 * rest;  // in which yields were short
  EXPECT_EQ(rest_after_long_yield(), least);
}

}  // namespace
}  // namespace keel
