// SPDX-License-Identifier: Apache-2.0
#include "bench/harness.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace keel::bench {
namespace {

constexpr RaceOptions kShort = {/*rounds=*/6, /*round_time=*/std::chrono::microseconds(50),
                                /*pause=*/std::chrono::nanoseconds(0)};

TEST(Race, TimesEachContenderOnceARound) {
  uint64_t runs = 0;
  const std::vector<Contender> contenders = {{"counted", 8, [&] { ++runs; }}, {"idle", 1, [] {}}};
  const std::vector<Timings> timings = race(contenders, kShort);
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].name, "counted");
  EXPECT_EQ(timings[0].work, 8);
  EXPECT_EQ(timings[0].seconds.size(), kShort.rounds);
  EXPECT_EQ(timings[1].seconds.size(), kShort.rounds);
  // An empty run is repeated to fill its round; warming up adds runs to those of the rounds.
  EXPECT_GT(timings[0].repetitions, 1u);
  EXPECT_GT(runs, timings[0].repetitions * kShort.rounds);
}

TEST(Race, StartsEachRoundWithTheNextContender) {
  std::string order;
  // A run is longer than a round, so each round has one run.
  const auto spin = [&](char letter) {
    order += letter;
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < 2 * kShort.round_time) {
    }
  };
  const std::vector<Contender> contenders = {
      {"a", 1, [&] { spin('a'); }}, {"b", 1, [&] { spin('b'); }}, {"c", 1, [&] { spin('c'); }}};
  race(contenders, kShort);
  ASSERT_GE(order.size(), 18u);
  EXPECT_EQ(order.substr(order.size() - 18), "abcbcacababcbcacab");
}

TEST(Race, AsksTheClockOfAContenderThatHasOne) {
  uint64_t runs = 0;
  // A custom clock by which each run takes 20 us, whatever the host's clock says.
  const std::vector<Contender> contenders = {
      {"timed", 1, /*run=*/nullptr, [&](uint64_t repetitions) {
         runs += repetitions;
         return static_cast<double>(repetitions) * 20e-6;
       }}};
  const std::vector<Timings> timings = race(contenders, kShort);
  EXPECT_EQ(timings[0].repetitions, 3u);  // the smallest count that takes 50 us
  ASSERT_EQ(timings[0].seconds.size(), kShort.rounds);
  for (double seconds : timings[0].seconds) EXPECT_DOUBLE_EQ(seconds, 20e-6);
  EXPECT_EQ(runs, 1 + 1 + 2 + kShort.rounds * 3u);
}

TEST(Race, EndsAfterFiveRoundsWhenThatIsEnough) {
  RaceOptions options = kShort;
  options.enough = std::chrono::nanoseconds(0);
  const std::vector<Contender> contenders = {{"idle", 1, [] {}}};
  EXPECT_EQ(race(contenders, options)[0].seconds.size(), 5u);
  options.rounds = 3;
  EXPECT_EQ(race(contenders, options)[0].seconds.size(), 3u);
}

TEST(Race, LetsExceptionsThrough) {
  const std::vector<Contender> contenders = {
      {"broken", 1, [] { throw std::runtime_error("no device"); }}};
  EXPECT_THROW(race(contenders, kShort), std::runtime_error);
}

TEST(Median, OfOddAndEvenCounts) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({9, 1, 5, 7}), 6);
}

TEST(Estimate, IntervalHoldsTheMedianAndIgnoresAnOutlier) {
  std::vector<double> values;
  for (int i = 0; i < 20; ++i) values.push_back(1.0 + 0.01 * i);
  values.push_back(100.0);
  const Estimate estimate = estimate_median(values);
  EXPECT_DOUBLE_EQ(estimate.median, 1.10);
  EXPECT_LT(estimate.low, estimate.median);
  EXPECT_GT(estimate.high, estimate.median);
  EXPECT_GE(estimate.low, 1.0);
  EXPECT_LE(estimate.high, 1.19);
}

TEST(Estimate, IsRepeatable) {
  const std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6};
  EXPECT_EQ(estimate_median(values).low, estimate_median(values).low);
  EXPECT_EQ(estimate_median(values).high, estimate_median(values).high);
}

TEST(GeometricMean, OfTheRatiosOfTwoComparisons) {
  const Timings quick_peer = {"peer", /*work=*/2, 1, {2, 4, 2}};
  const Timings quick = {"subject", /*work=*/2, 1, {1, 2, 1}};  // twice as fast
  const Timings slow_peer = {"peer", /*work=*/32, 1, {8, 8}};
  const Timings slow = {"subject", /*work=*/32, 1, {1, 1}};  // eight times as fast
  const Timings* const subjects[] = {&quick, &slow};
  const Timings* const peers[] = {&quick_peer, &slow_peer};
  const Timings subject = geometric_mean("all", subjects);
  EXPECT_EQ(subject.name, "all");
  EXPECT_DOUBLE_EQ(subject.work, 8);
  EXPECT_EQ(subject.seconds.size(), 2u);
  EXPECT_DOUBLE_EQ(rate_ratio(subject, geometric_mean("theirs", peers)).median, 4);
}

TEST(Ratio, PairsTheRounds) {
  // Twice as long in every round, on a machine that gets slower: the medians show this too, but the
  // pairs show it exactly.
  const Timings peer = {"peer", /*work=*/2, 1, {1, 2, 4}};
  const Timings subject = {"subject", /*work=*/8, 1, {2, 4, 8}};
  const Estimate time = time_ratio(subject, peer);
  EXPECT_EQ(time.low, 2);
  EXPECT_EQ(time.median, 2);
  EXPECT_EQ(time.high, 2);
  EXPECT_EQ(time_difference(subject, peer).median, 2);
  EXPECT_EQ(rate_ratio(subject, peer).median, 2);  // 4 times the work in twice the time
}

}  // namespace
}  // namespace keel::bench
