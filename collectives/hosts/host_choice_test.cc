// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_choice.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

Algorithm choice(keel_collective collective, uint64_t bytes, const HostSetting& setting) {
  Request request;
  request.collective = collective;
  request.dtype = KEEL_FLOAT32;
  request.count = bytes / sizeof(float);
  return choose_between_hosts(request, bytes, setting, [&](Algorithm algorithm) {
    return applies_between_hosts(algorithm, collective, setting.between) &&
           (algorithm != Algorithm::kAggregated || setting.between != setting.world);
  });
}

TEST(HostChoiceTest, FewRanksSendToAll) {
  const HostSetting eight{.world = 8, .between = 8};
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 8, eight), Algorithm::kDirect);
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 16 << 20, eight), Algorithm::kDirect);
  EXPECT_EQ(choice(KEEL_ALL_TO_ALL, 8, eight), Algorithm::kDirect);
}

TEST(HostChoiceTest, ManyRanksSendToFew) {
  const HostSetting nine{.world = 9, .between = 9};
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 8, nine), Algorithm::kDoubling);
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 64 << 10, nine), Algorithm::kRing);
  EXPECT_EQ(choice(KEEL_BROADCAST, 8, nine), Algorithm::kBinomial);
}

TEST(HostChoiceTest, RanksThatShareProcessorsSendFewShortMessages) {
  const HostSetting four{.world = 4, .between = 4, .shares_processors = true};
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 64 << 10, four), Algorithm::kDoubling);
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 128 << 10, four), Algorithm::kDirect);
  EXPECT_EQ(choice(KEEL_ALL_GATHER, 8, four), Algorithm::kDoubling);
  EXPECT_EQ(choice(KEEL_REDUCE_SCATTER, 8, four), Algorithm::kHalving);
  EXPECT_EQ(choice(KEEL_ALL_TO_ALL, 8, four), Algorithm::kBruck);
  EXPECT_EQ(choice(KEEL_BROADCAST, 8, four), Algorithm::kDirect);
  const HostSetting three{.world = 3, .between = 3, .shares_processors = true};
  EXPECT_EQ(choice(KEEL_REDUCE_SCATTER, 16 << 10, three), Algorithm::kHalving);
  EXPECT_EQ(choice(KEEL_REDUCE_SCATTER, 64 << 10, three), Algorithm::kDirect);
  EXPECT_EQ(choice(KEEL_ALL_TO_ALL, 8, three), Algorithm::kDirect);
  const HostSetting two{.world = 2, .between = 2, .shares_processors = true};
  EXPECT_EQ(choice(KEEL_ALL_REDUCE, 8, two), Algorithm::kDirect);
}

TEST(HostChoiceTest, HostsOfSeveralRanksAggregate) {
  const HostSetting lanes{.world = 8, .between = 4, .shares_processors = true};
  EXPECT_EQ(choice(KEEL_ALL_TO_ALL, 8, lanes), Algorithm::kAggregated);
  EXPECT_EQ(choice(KEEL_ALL_TO_ALL, 1 << 20, lanes), Algorithm::kDirect);
}

}  // namespace
}  // namespace keel
