// SPDX-License-Identifier: Apache-2.0
#include "collectives/bridge/chunk_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace keel {
namespace {

std::vector<HostLink> links_of(std::initializer_list<double> rates) {
  std::vector<HostLink> links;
  for (double rate : rates) links.push_back({rate, rate, false});
  return links;
}

std::vector<double> shares_of(const std::vector<HostLink>& links) {
  ChunkPlan plan;
  weighted_shares(links, &plan.share_ends);
  std::vector<double> shares;
  for (uint32_t rank = 0; rank < links.size(); ++rank) shares.push_back(plan.share(rank));
  return shares;
}

// Time of one byte on the rank whose host link finishes last.
double exchange_time(const std::vector<HostLink>& links) {
  const std::vector<double> shares = shares_of(links);
  double slowest = 0;
  for (size_t rank = 0; rank < links.size(); ++rank) {
    const double sent = 1 + (static_cast<double>(links.size()) - 2) * shares[rank];
    slowest = std::max(slowest, sent / links[rank].rate());
  }
  return slowest;
}

// Returns the least time of an exchange of messages.
double bound_time(const std::vector<HostLink>& links) {
  double least = std::numeric_limits<double>::infinity();
  double total = 0;
  for (const HostLink& link : links) {
    least = std::min(least, link.rate());
    total += link.rate();
  }
  return std::max(1 / least, 2 * (static_cast<double>(links.size()) - 1) / total);
}

constexpr uint64_t kChunk = 2 << 20;

ChunkPlan plan_of(uint64_t bytes, const std::vector<HostLink>& links, uint64_t chunk = kChunk,
                  bool host_copies = false) {
  ChunkPlan plan;
  const std::vector<LinkTraffic> traffic(links.size(), LinkTraffic{bytes, bytes});
  plan_chunks({bytes, 4, chunk}, links, traffic, host_copies, &plan);
  return plan;
}

TEST(ChunkPlan, ADeviceThatSumsUpHasAllShares) {
  const HostLink none = {.is_free = true};
  for (const uint32_t summing : {0u, 1u}) {
    std::vector<HostLink> links = {none, none};
    links[summing] = {10, 10, false};
    ChunkPlan plan;
    plan_device_reduction({1 << 30, 4, kChunk}, links, summing, 5, &plan);
    EXPECT_EQ(plan.windows, 5u);
    EXPECT_EQ(plan.window_bytes, kChunk);
    EXPECT_EQ(plan.share(summing), 1);
    EXPECT_EQ(plan.share(1 - summing), 0);
    // 1 GiB at 10 GB/s, plus one window.
    EXPECT_NEAR(plan.bound_seconds, 0.1073741824, 1e-9);
    EXPECT_NEAR(plan.predicted_seconds, 0.1073741824 + 2097152e-10, 1e-9);
  }
}

// Each device sends its values and receives the sums, in both directions at once.
TEST(ChunkPlan, BoundOfSumsOnTheHostIsTheSlowestLinkForAnyNumberOfRanks) {
  const uint64_t bytes = 64 << 20;
  for (size_t world = 1; world <= 8; ++world) {
    const std::vector<HostLink> links(world, HostLink{0.16, 0.16, false});
    EXPECT_NEAR(plan_of(bytes, links).bound_seconds, 0.4194304, 1e-9) << world;
  }
  EXPECT_NEAR(plan_of(bytes, links_of({0.25, 0.5, 1})).bound_seconds, 0.268435456, 1e-9);
  // The slower direction of one link.
  EXPECT_NEAR(plan_of(bytes, {{4, 0.5, false}, {1, 2, false}}).bound_seconds, 0.134217728, 1e-9);
  // A device that the host reaches sets no bound.
  EXPECT_NEAR(plan_of(bytes, {{.is_free = true}, {1, 1, false}}).bound_seconds, 0.067108864, 1e-9);
}

TEST(ChunkPlan, BoundOfADeviceThatSumsIsItsSlowerDirection) {
  ChunkPlan plan;
  const std::vector<HostLink> links = {{8, 2, false}, {.is_free = true}};
  plan_device_reduction({1 << 30, 4, kChunk}, links, /*summing=*/0, 5, &plan);
  EXPECT_NEAR(plan.bound_seconds, 0.536870912, 1e-9);
  EXPECT_NEAR(plan.predicted_seconds, 0.536870912 + 1048576e-9, 1e-9);
}

// As in a broadcast, whose root sends and whose other ranks receive.
TEST(ChunkPlan, ADirectionWithoutTrafficSetsNoBound) {
  constexpr uint64_t kBytes = 1 << 30;
  const std::vector<HostLink> links = {{2, 0.001, false}, {0, 4, false}, {0, 0, false}};
  ChunkPlan plan;
  plan_chunks({kBytes, 4, kChunk}, links, std::vector<LinkTraffic>{{kBytes, 0}, {0, kBytes}, {}},
              false, &plan);
  EXPECT_NEAR(plan.bound_seconds, 0.536870912, 1e-9);
  EXPECT_GT(plan.predicted_seconds, plan.bound_seconds);
  // The third link has traffic, and no known rate.
  plan_chunks({kBytes, 4, kChunk}, links,
              std::vector<LinkTraffic>{{kBytes, 0}, {0, kBytes}, {0, kBytes}}, false, &plan);
  EXPECT_EQ(plan.bound_seconds, 0);
  EXPECT_EQ(plan.predicted_seconds, 0);
}

TEST(ChunkPlan, SharesAreAllOfItAndReachTheBound) {
  for (const auto& links : {links_of({1, 1, 1}), links_of({1, 2, 4}), links_of({1, 1, 1, 9}),
                            links_of({9, 1, 1, 1}), links_of({3, 5, 4}), links_of({5, 6, 7, 8}),
                            links_of({1, 1.1, 1, 1, 1, 1, 1, 1}), links_of({1e-3, 5e3, 2, 2, 2})}) {
    const std::vector<double> shares = shares_of(links);
    double sum = 0;
    for (double share : shares) {
      EXPECT_GE(share, 0);
      sum += share;
    }
    EXPECT_DOUBLE_EQ(sum, 1);
    // Shares are multiples of 2^-16; the bytes of a link are (k - 2) times as coarse.
    const double step = static_cast<double>(links.size()) / ChunkPlan::kWhole;
    EXPECT_LE(exchange_time(links), bound_time(links) * (1 + step)) << links.size() << " links";
  }
}

TEST(ChunkPlan, EqualLegsGetEqualShares) {
  for (uint32_t world = 1; world <= 9; ++world) {
    const std::vector<double> shares =
        shares_of(std::vector<HostLink>(world, HostLink{2, 3, false}));
    for (double share : shares) EXPECT_NEAR(share, 1.0 / world, 2e-5) << world;
  }
}

TEST(ChunkPlan, ASlowLegSendsNothingTwiceAndAFastOneTakesItsPart) {
  // With rates 1 : 1 : 1 : 9, the ranks' own data keeps the slow links busy all the time.
  const std::vector<double> shares = shares_of(links_of({1, 1, 1, 9}));
  EXPECT_EQ(shares[0], 0);
  EXPECT_EQ(shares[3], 1);
  // Links with spare capacity share equally.
  const std::vector<double> three = shares_of(links_of({1, 4, 4}));
  EXPECT_EQ(three[0], 0);
  EXPECT_NEAR(three[1], 0.5, 1e-4);
  EXPECT_NEAR(three[2], 0.5, 1e-4);
  // Two ranks exchange the same amount with any shares.
  EXPECT_NEAR(shares_of(links_of({1, 100}))[0], 0.5, 1e-4);
}

TEST(ChunkPlan, WithoutALegARankHasRoom) {
  std::vector<HostLink> links = links_of({1, 0, 0});
  links[1].is_free = links[2].is_free = true;
  const std::vector<double> shares = shares_of(links);
  EXPECT_EQ(shares[0], 0);
  EXPECT_NEAR(shares[1], 0.5, 1e-4);
  links[0].is_free = true;
  EXPECT_NEAR(shares_of(links)[0], 1.0 / 3, 1e-4);
  EXPECT_EQ(plan_of(kChunk, links).bound_seconds, 0);
}

TEST(ChunkPlan, UnknownAndAbsurdRatesWeighNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double rate : {0.0, -1.0, kInfinity, std::nan(""), 1e300, 1e-300}) {
    EXPECT_EQ(sane_rate(rate), 0);
    const std::vector<HostLink> links = links_of({1, rate, 5});
    for (double share : shares_of(links)) EXPECT_NEAR(share, 1.0 / 3, 1e-4) << rate;
    const ChunkPlan plan = plan_of(16 << 20, links);
    EXPECT_EQ(plan.bound_seconds, 0);
    EXPECT_EQ(plan.predicted_seconds, 0);
    EXPECT_EQ(plan.window_bytes, 1u << 20);  // sixteen windows, to measure the rates
  }
  // A single known direction gives the rate.
  EXPECT_EQ((HostLink{3, 0, false}.rate()), 3);
  EXPECT_EQ((HostLink{3, 2, false}.rate()), 2);
}

TEST(ChunkPlan, WindowsFitTheirMemory) {
  for (uint64_t chunk : {uint64_t{64}, uint64_t{4096}, uint64_t{4160}, kChunk, uint64_t{1} << 30}) {
    for (double rate : {0.0, 1e-5, 0.25, 1.0, 12.0, 5000.0}) {
      for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{100'000}, uint64_t{16} << 20,
                             uint64_t{256} << 20, UINT64_MAX}) {
        for (bool host_copies : {false, true}) {
          const ChunkPlan plan = plan_of(bytes, links_of({rate, rate}), chunk, host_copies);
          EXPECT_LE(plan.window_bytes, chunk);
          // Whole pages.
          EXPECT_GT(plan.window_bytes + 4096, std::min<uint64_t>(chunk, 64 << 10));
          EXPECT_GE(plan.windows, 2u);
          EXPECT_LE(plan.windows, ChunkPlan::kMostWindows);
          EXPECT_LE(plan.windows * plan.window_bytes, 2 * chunk);
          EXPECT_TRUE(plan.predicted_seconds >= plan.bound_seconds) << rate << " " << bytes;
        }
      }
    }
  }
}

TEST(ChunkPlan, AWindowOutlastsATurnOfTheHost) {
  // The last window takes more than 0.4 ms after the first has arrived, or the link would wait.
  EXPECT_GE(plan_of(16 << 20, links_of({0.25, 0.25})).window_bytes, 96u << 10);
  EXPECT_GE(plan_of(16 << 20, links_of({1, 9})).window_bytes, 384u << 10);
  // Filling and draining the links costs at most 5% of the bound.
  const ChunkPlan plan = plan_of(16 << 20, links_of({0.25, 0.25, 0.25, 2.25}));
  EXPECT_LE(plan.predicted_seconds, plan.bound_seconds / 0.95);
  EXPECT_EQ(plan.windows, ChunkPlan::kMostWindows);
}

TEST(ChunkPlan, SharesOfAWindowAreInARowAndWholeLines) {
  for (uint32_t element : {1u, 2u, 4u, 8u}) {
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{65}, uint64_t{1000},
                           uint64_t{65536}, uint64_t{65537}, UINT64_MAX / 8}) {
      for (const auto& links : {links_of({1}), links_of({1, 1, 1}), links_of({3, 5, 4, 4.5}),
                                links_of({1, 1, 1, 9}), links_of({1, 1, 1, 1, 1, 1, 1})}) {
        const ChunkPlan plan = plan_of(1 << 20, links);
        uint64_t next = 0;
        for (uint32_t rank = 0; rank < links.size(); ++rank) {
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
