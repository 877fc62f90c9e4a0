// SPDX-License-Identifier: Apache-2.0
#include "collectives/bridge/exchange_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace keel {
namespace {

std::vector<Leg> legs_of(std::initializer_list<double> rates) {
  std::vector<Leg> legs;
  for (double rate : rates) legs.push_back({rate, rate, false});
  return legs;
}

std::vector<double> shares_of(const std::vector<Leg>& legs) {
  ExchangePlan plan;
  weighted_shares(legs, &plan.share_ends);
  std::vector<double> shares;
  for (uint32_t rank = 0; rank < legs.size(); ++rank) shares.push_back(plan.share(rank));
  return shares;
}

// Time of one byte on the rank whose host link finishes last.
double exchange_time(const std::vector<Leg>& legs) {
  const std::vector<double> shares = shares_of(legs);
  double slowest = 0;
  for (size_t rank = 0; rank < legs.size(); ++rank) {
    const double sent = 1 + (static_cast<double>(legs.size()) - 2) * shares[rank];
    slowest = std::max(slowest, sent / legs[rank].rate());
  }
  return slowest;
}

double bound_time(const std::vector<Leg>& legs) {
  double least = std::numeric_limits<double>::infinity();
  double total = 0;
  for (const Leg& leg : legs) {
    least = std::min(least, leg.rate());
    total += leg.rate();
  }
  return std::max(1 / least, 2 * (static_cast<double>(legs.size()) - 1) / total);
}

constexpr uint64_t kChunk = 2 << 20;

ExchangePlan plan_of(uint64_t bytes, const std::vector<Leg>& legs, uint64_t chunk = kChunk,
                     bool host_copies = false) {
  ExchangePlan plan;
  plan_exchange({bytes, 4, chunk}, legs, host_copies, &plan);
  return plan;
}

TEST(ExchangePlan, ADeviceThatSumsUpHasAllShares) {
  const Leg none = {.is_free = true};
  for (const uint32_t summing : {0u, 1u}) {
    std::vector<Leg> legs = {none, none};
    legs[summing] = {10, 10, false};
    ExchangePlan plan;
    plan_device_sum({1 << 30, 4, kChunk}, legs, summing, 5, &plan);
    EXPECT_EQ(plan.windows, 5u);
    EXPECT_EQ(plan.window_bytes, kChunk);
    EXPECT_EQ(plan.share(summing), 1);
    EXPECT_EQ(plan.share(1 - summing), 0);
    // 1 GiB at 10 GB/s, plus one window.
    EXPECT_NEAR(plan.bound_seconds, 0.1073741824, 1e-9);
    EXPECT_NEAR(plan.predicted_seconds, 0.1073741824 + 2097152e-10, 1e-9);
  }
}

TEST(ExchangePlan, SharesAreAllOfItAndReachTheBound) {
  for (const auto& legs : {legs_of({1, 1, 1}), legs_of({1, 2, 4}), legs_of({1, 1, 1, 9}),
                           legs_of({9, 1, 1, 1}), legs_of({3, 5, 4}), legs_of({5, 6, 7, 8}),
                           legs_of({1, 1.1, 1, 1, 1, 1, 1, 1}), legs_of({1e-3, 5e3, 2, 2, 2})}) {
    const std::vector<double> shares = shares_of(legs);
    double sum = 0;
    for (double share : shares) {
      EXPECT_GE(share, 0);
      sum += share;
    }
    EXPECT_DOUBLE_EQ(sum, 1);
    // Shares are multiples of 2^-16; the bytes of a link are (k - 2) times as coarse.
    const double step = static_cast<double>(legs.size()) / ExchangePlan::kWhole;
    EXPECT_LE(exchange_time(legs), bound_time(legs) * (1 + step)) << legs.size() << " legs";
  }
}

TEST(ExchangePlan, EqualLegsGetEqualShares) {
  for (uint32_t world = 1; world <= 9; ++world) {
    const std::vector<double> shares = shares_of(std::vector<Leg>(world, Leg{2, 3, false}));
    for (double share : shares) EXPECT_NEAR(share, 1.0 / world, 2e-5) << world;
  }
}

TEST(ExchangePlan, ASlowLegSendsNothingTwiceAndAFastOneTakesItsPart) {
  // With rates 1 : 1 : 1 : 9, the ranks' own data keeps the slow links busy all the time.
  const std::vector<double> shares = shares_of(legs_of({1, 1, 1, 9}));
  EXPECT_EQ(shares[0], 0);
  EXPECT_EQ(shares[3], 1);
  // Links with spare capacity share equally.
  const std::vector<double> three = shares_of(legs_of({1, 4, 4}));
  EXPECT_EQ(three[0], 0);
  EXPECT_NEAR(three[1], 0.5, 1e-4);
  EXPECT_NEAR(three[2], 0.5, 1e-4);
  // Two ranks exchange the same amount with any shares.
  EXPECT_NEAR(shares_of(legs_of({1, 100}))[0], 0.5, 1e-4);
}

TEST(ExchangePlan, WithoutALegARankHasRoom) {
  std::vector<Leg> legs = legs_of({1, 0, 0});
  legs[1].is_free = legs[2].is_free = true;
  const std::vector<double> shares = shares_of(legs);
  EXPECT_EQ(shares[0], 0);
  EXPECT_NEAR(shares[1], 0.5, 1e-4);
  legs[0].is_free = true;
  EXPECT_NEAR(shares_of(legs)[0], 1.0 / 3, 1e-4);
  EXPECT_EQ(plan_of(kChunk, legs).bound_seconds, 0);
}

TEST(ExchangePlan, UnknownAndAbsurdRatesWeighNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double rate : {0.0, -1.0, kInfinity, std::nan(""), 1e300, 1e-300}) {
    EXPECT_EQ(sane_rate(rate), 0);
    const std::vector<Leg> legs = legs_of({1, rate, 5});
    for (double share : shares_of(legs)) EXPECT_NEAR(share, 1.0 / 3, 1e-4) << rate;
    const ExchangePlan plan = plan_of(16 << 20, legs);
    EXPECT_EQ(plan.bound_seconds, 0);
    EXPECT_EQ(plan.predicted_seconds, 0);
    EXPECT_EQ(plan.window_bytes, 1u << 20);  // sixteen windows, to measure the rates
  }
  // A single known direction gives the rate.
  EXPECT_EQ((Leg{3, 0, false}.rate()), 3);
  EXPECT_EQ((Leg{3, 2, false}.rate()), 2);
}

TEST(ExchangePlan, WindowsFitTheirMemory) {
  for (uint64_t chunk : {uint64_t{64}, uint64_t{4096}, uint64_t{4160}, kChunk, uint64_t{1} << 30}) {
    for (double rate : {0.0, 1e-5, 0.25, 1.0, 12.0, 5000.0}) {
      for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{100'000}, uint64_t{16} << 20,
                             uint64_t{256} << 20, UINT64_MAX}) {
        for (bool host_copies : {false, true}) {
          const ExchangePlan plan = plan_of(bytes, legs_of({rate, rate}), chunk, host_copies);
          EXPECT_LE(plan.window_bytes, chunk);
          // Whole pages.
          EXPECT_GT(plan.window_bytes + 4096, std::min<uint64_t>(chunk, 64 << 10));
          EXPECT_GE(plan.windows, 2u);
          EXPECT_LE(plan.windows, ExchangePlan::kMostWindows);
          EXPECT_LE(plan.windows * plan.window_bytes, 2 * chunk);
          EXPECT_TRUE(plan.predicted_seconds >= plan.bound_seconds) << rate << " " << bytes;
        }
      }
    }
  }
}

TEST(ExchangePlan, AWindowOutlastsATurnOfTheHost) {
  // The last window takes more than 0.4 ms after the first has arrived, or the link would wait.
  EXPECT_GE(plan_of(16 << 20, legs_of({0.25, 0.25})).window_bytes, 96u << 10);
  EXPECT_GE(plan_of(16 << 20, legs_of({1, 9})).window_bytes, 384u << 10);
  // Filling and draining the links costs at most 5% of the bound.
  const ExchangePlan plan = plan_of(16 << 20, legs_of({0.25, 0.25, 0.25, 2.25}));
  EXPECT_LE(plan.predicted_seconds, plan.bound_seconds / 0.95);
  EXPECT_EQ(plan.windows, ExchangePlan::kMostWindows);
}

TEST(ExchangePlan, SharesOfAWindowAreInARowAndWholeLines) {
  for (uint32_t element : {1u, 2u, 4u, 8u}) {
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{65}, uint64_t{1000},
                           uint64_t{65536}, uint64_t{65537}, UINT64_MAX / 8}) {
      for (const auto& legs : {legs_of({1}), legs_of({1, 1, 1}), legs_of({3, 5, 4, 4.5}),
                               legs_of({1, 1, 1, 9}), legs_of({1, 1, 1, 1, 1, 1, 1})}) {
        const ExchangePlan plan = plan_of(1 << 20, legs);
        uint64_t next = 0;
        for (uint32_t rank = 0; rank < legs.size(); ++rank) {
          const ShareRange range = share_of(plan, rank, count, element);
          EXPECT_EQ(range.begin, next);
          EXPECT_TRUE(range.count == 0 || range.begin * element % 64 == 0);
          next += range.count;
        }
        EXPECT_EQ(next, count);
        // Proportional, up to rounding to a cache line and to 2^-16.
        const auto mine = static_cast<double>(share_of(plan, 0, count, element).count);
        const auto all = static_cast<double>(count);
        EXPECT_NEAR(mine, plan.share(0) * all, 64 + all / 65536);
      }
    }
  }
}

}  // namespace
}  // namespace keel
