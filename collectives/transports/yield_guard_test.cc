// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/yield_guard.h"

#include <gtest/gtest.h>

#include "collectives/transports/wait_policy.h"

namespace keel {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Yields at times of its own.
class Yields {
 public:
  // Yields for |length| as soon as the guard lets it.
  void yield(YieldGuard::Clock::duration length) {
    while (!guard_.may_yield(now_)) now_ += milliseconds(1);
    guard_.note_yield(now_, now_ + length);
    now_ += length;
  }
  void yield_long() { yield(milliseconds(3)); }
  void yield_short(int times) {
    for (int i = 0; i < times; ++i) yield(microseconds(50));
  }
  bool rests(YieldGuard::Clock::duration passed = {}) const {
    return !guard_.may_yield(now_ + passed);
  }

 private:
  YieldGuard guard_;
  YieldGuard::Clock::time_point now_ = YieldGuard::Clock::now();
};

TEST(YieldGuardTest, RestsAfterASecondLongYield) {
  Yields yields;
  yields.yield_short(10);
  EXPECT_FALSE(yields.rests()) << "other ranks had their turns";
  yields.yield_long();
  EXPECT_FALSE(yields.rests()) << "another rank had work of its own";
  yields.yield_short(10);
  yields.yield_long();
  EXPECT_TRUE(yields.rests());
  EXPECT_FALSE(yields.rests(milliseconds(4)));
}

TEST(YieldGuardTest, SeldomLongYieldsAreOfRanks) {
  Yields yields;
  for (int i = 0; i < 5; ++i) {
    yields.yield_long();
    EXPECT_FALSE(yields.rests());
    yields.yield_short(1000);
  }
}

TEST(YieldGuardTest, RestsLongerWhereYieldsStayLong) {
  Yields yields;
  for (int i = 0; i < 20; ++i) yields.yield_long();
  EXPECT_TRUE(yields.rests(15 * milliseconds(3))) << "a sixteenth of the time is lost at most";
  EXPECT_FALSE(yields.rests(17 * milliseconds(3)));
  yields.yield_short(1000);
  yields.yield_long();
  EXPECT_FALSE(yields.rests());
}

// A wait whose thread may not yield parks.
TEST(YieldGuardTest, OversubscribedWaitsEndTheirTurnsDuringARest) {
  const WaitPolicy shared(/*oversubscribed=*/true);
  const WaitPolicy dedicated(/*oversubscribed=*/false);
  YieldGuard& guard = YieldGuard::of_thread();
  EXPECT_TRUE(shared.relax(0));
  const auto now = YieldGuard::Clock::now();
  for (int i = 0; i < 3; ++i) guard.note_yield(now, now + std::chrono::hours(1));
  EXPECT_FALSE(shared.relax(0));
  EXPECT_TRUE(dedicated.relax(0)) << "pauses";
  EXPECT_TRUE(dedicated.relax(255)) << "pauses in the place of a yield";
  guard = YieldGuard();
}

}  // namespace
}  // namespace keel
