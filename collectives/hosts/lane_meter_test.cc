// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/lane_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace keel {
namespace {

constexpr uint64_t kBytes = 8 << 20;

// The object of what |meter| explains.
std::string explained(const LaneMeter& meter) {
  std::string text;
  JsonWriter json(&text, JsonLayout::kOneLine);
  json.begin_object();
  meter.explain(json);
  json.end_object();
  return text;
}

// One meter for each rank of |hosts| hosts, whose lanes move |rates| bytes a microsecond.
class LaneJob {
 public:
  LaneJob(uint32_t hosts, std::vector<uint64_t> rates, const LaneShares& set = {})
      : lanes_(static_cast<uint32_t>(rates.size())), rates_(std::move(rates)) {
    for (uint32_t i = 0; i < hosts * lanes_; ++i) {
      meters_.push_back(std::make_unique<LaneMeter>(lanes_, set));
    }
    late_ns_.resize(hosts);
  }
  // Host |host| enters each operation so much before the last one.
  void set_early(uint32_t host, int64_t ns) { late_ns_[host] = ns; }
  void set_rates(const std::vector<uint64_t>& rates) { rates_ = rates; }

  // Runs operations, and expects that all ranks have the same weights in each.
  void run(uint32_t operations) {
    for (uint32_t each = 0; each < operations; ++each) {
      const LaneShares before = shares();
      const std::vector<Piece> pieces = divide_by_lanes(kBytes, 1, lanes_, before);
      for (size_t rank = 0; rank < meters_.size(); ++rank) {
        ASSERT_EQ(meters_[rank]->shares(), before);
        const size_t lane = rank % lanes_;
        const auto ns = static_cast<int64_t>(pieces[lane].count * 1000 / rates_[lane]);
        meters_[rank]->note(pieces[lane].count, ns + late_ns_[rank / lanes_]);
        ASSERT_EQ(meters_[rank]->is_due(), meters_[0]->is_due());
      }
      if (!meters_[0]->is_due()) continue;
      ++exchanges_;
      std::vector<uint64_t> best(lanes_);
      for (size_t rank = 0; rank < meters_.size(); ++rank) {
        best[rank % lanes_] = std::max(best[rank % lanes_], meters_[rank]->rate());
      }
      for (const auto& meter : meters_) meter->agree(best);
    }
  }
  const LaneShares& shares() const { return meters_[0]->shares(); }
  uint32_t exchanges() const { return exchanges_; }
  std::string explain() const { return explained(*meters_.back()); }

 private:
  const uint32_t lanes_;
  std::vector<uint64_t> rates_;
  std::vector<int64_t> late_ns_;  // by host
  std::vector<std::unique_ptr<LaneMeter>> meters_;
  uint32_t exchanges_ = 0;
};

TEST(LaneMeterTest, RatesThatNoLaneHasGiveWeights) {
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  // Their sum, and products with a percentage, exceed 64 bits.
  EXPECT_EQ(revise_lane_shares({}, {kHalf + 2, kHalf - 2, 1}), (LaneShares{32, 32, 1}));
  EXPECT_EQ(revise_lane_shares({1000, 1, 1}, {UINT64_MAX, UINT64_MAX, UINT64_MAX}), LaneShares());
}

TEST(LaneMeterTest, SlowLaneGetsLessAfterTheFirstExchange) {
  LaneJob job(2, {1000, 500});
  job.run(7);
  EXPECT_TRUE(job.shares().empty());
  job.run(1);
  EXPECT_EQ(job.shares(), (LaneShares{32, 16}));
  job.run(1000);
  EXPECT_EQ(job.shares(), (LaneShares{32, 16}));
  EXPECT_EQ(job.explain(),
            "{\"lane_shares\": [0.6667, 0.3333], \"lane_shares_from\": \"measured\", "
            "\"lane_rates\": [1000, 500]}");
}

TEST(LaneMeterTest, EqualLanesStayEqual) {
  LaneJob job(3, {1000, 900, 1050, 950});
  job.run(1000);
  EXPECT_TRUE(job.shares().empty());
  EXPECT_NE(job.explain().find("[0.25, 0.25, 0.25, 0.25], \"lane_shares_from\": \"measured\""),
            std::string::npos)
      << job.explain();
}

// The rates that the hosts note are the lower, the longer they wait for the last one.
TEST(LaneMeterTest, HostThatComesLastDecides) {
  LaneJob job(2, {1000, 500});
  job.set_early(0, 1'000'000'000);
  job.run(8);
  EXPECT_EQ(job.shares(), (LaneShares{32, 16}));
}

// With some wait on every host, the weights come to the same in steps.
TEST(LaneMeterTest, WeightsSettleAlthoughEveryHostWaits) {
  LaneJob job(2, {1000, 250});
  for (const uint32_t host : {0, 1}) job.set_early(host, 2'000'000);
  job.run(200);
  ASSERT_EQ(job.shares().size(), 2u);
  const double ratio = static_cast<double>(job.shares()[0]) / job.shares()[1];
  EXPECT_GT(ratio, 2.9);
  EXPECT_LT(ratio, 4.2);
}

TEST(LaneMeterTest, WeightsFollowAWireThatRecovers) {
  LaneJob job(2, {1000, 500});
  job.run(20);
  EXPECT_EQ(job.shares(), (LaneShares{32, 16}));
  job.set_rates({1000, 1000});
  job.run(200);
  EXPECT_TRUE(job.shares().empty());
}

TEST(LaneMeterTest, ExchangesBecomeRare) {
  LaneJob job(2, {1000, 1000});
  job.run(100'000);
  EXPECT_EQ(job.exchanges(),
            8u + (100'000 - 2040) / 1024);  // at 8, 24, 56, ... 2040, then all 1024
}

TEST(LaneMeterTest, SetWeightsStay) {
  LaneMeter meter(2, {3, 1});
  EXPECT_FALSE(meter.notes(LaneMeter::kLeastBytes));
  EXPECT_EQ(meter.shares(), (LaneShares{3, 1}));
  EXPECT_NE(explained(meter).find("[0.75, 0.25], \"lane_shares_from\": \"set\""),
            std::string::npos);
  EXPECT_FALSE(LaneMeter(1, {}).notes(LaneMeter::kLeastBytes));
  EXPECT_FALSE(LaneMeter(2, {}).notes(LaneMeter::kLeastBytes - 1));
  EXPECT_TRUE(LaneMeter(2, {}).notes(LaneMeter::kLeastBytes));
}

TEST(ReviseLaneSharesTest, LanesOfLikeRatesGetOneWeight) {
  EXPECT_EQ(revise_lane_shares({}, {1000, 480, 960, 1040}), (LaneShares{32, 15, 32, 32}));
}

TEST(ReviseLaneSharesTest, SmallDifferenceChangesNothing) {
  EXPECT_EQ(revise_lane_shares({}, {1000, 1200}), LaneShares());
  EXPECT_EQ(revise_lane_shares({}, {1000, 1201}), (LaneShares{27, 32}));
  EXPECT_EQ(revise_lane_shares({32, 16}, {1000, 450}), (LaneShares{32, 16}));
  EXPECT_EQ(revise_lane_shares({32, 16}, {1000, 400}), (LaneShares{32, 13}));
}

TEST(ReviseLaneSharesTest, UnknownRateChangesNothing) {
  EXPECT_EQ(revise_lane_shares({2, 1}, {1000, 0}), (LaneShares{2, 1}));
  EXPECT_EQ(revise_lane_shares({}, {}), LaneShares());
}

TEST(ReviseLaneSharesTest, SlowestLaneKeepsAPart) {
  EXPECT_EQ(revise_lane_shares({}, {uint64_t{1} << 40, 1}), (LaneShares{32, 1}));
}

}  // namespace
}  // namespace keel
