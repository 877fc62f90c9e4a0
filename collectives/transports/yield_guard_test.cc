// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/yield_guard.h"

#include <gtest/gtest.h>

#include <chrono>

namespace keel {
namespace {

// Yields at times of its own. A unit is the shortest long yield.
class Yields {
 public:
  // Yields for |length| as soon as the guard lets it.
  void yield(uint64_t length) {
    while (!guard_.may_yield(now_)) now_ += kUnit / 4;
    guard_.note_yield(now_, now_ + length);
    now_ += length;
  }
  void yield_long() { yield(2 * kUnit); }
  void yield_short(int times) {
    for (int i = 0; i < times; ++i) yield(kUnit / 10);
  }
  bool rests(uint64_t units_later = 0) const {
    return !guard_.may_yield(now_ + units_later * kUnit);
  }

 private:
  const uint64_t kUnit = YieldGuard::kLongYield;

  YieldGuard guard_;
  uint64_t now_ = YieldGuard::ticks();
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
  EXPECT_FALSE(yields.rests(3));
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
  EXPECT_TRUE(yields.rests(2 * 15)) << "a sixteenth of the time is lost at most";
  EXPECT_FALSE(yields.rests(2 * 17));
  yields.yield_short(1000);
  yields.yield_long();
  EXPECT_FALSE(yields.rests());
}

TEST(YieldGuardTest, LongYieldTakesAboutAMillisecond) {
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t end = YieldGuard::ticks() + 10 * YieldGuard::kLongYield;
  while (YieldGuard::ticks() < end) continue;
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3));
}

}  // namespace
}  // namespace keel
