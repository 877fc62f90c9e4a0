// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/hierarchical_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace keel {
namespace {

using Why = NativeOffer::Why;
using Hierarchical = std::vector<std::vector<uint32_t>>;

NativeCapability all_but(keel_dtype dtype) {
  NativeCapability capability;
  for (auto& dtypes : capability.reductions) {
    dtypes.fill(0x3f);
    dtypes[dtype] = 0;
  }
  return capability;
}

// |device|: as in "sim:0", of the process |process|.
NativeRank rank_on(const std::string& device, const std::string& library = "ccl 1",
                   uint8_t process = 1, keel_ccl_reach reach = KEEL_CCL_PROCESS) {
  NativeRank rank;
  rank.why = Why::kOffered;
  library.copy(rank.offer.library.data(), rank.offer.library.size() - 1);
  rank.offer.reach = reach;
  rank.offer.capability = all_but(KEEL_FLOAT64);
  rank.process.bytes[0] = process;
  rank.device = device;
  return rank;
}

NativeRank without(Why why, const std::string& device = "cpu:0") {
  NativeRank rank;
  rank.why = why;
  rank.process.bytes[0] = 1;
  rank.device = device;
  return rank;
}

Request request(keel_collective collective, keel_dtype dtype = KEEL_FLOAT32,
                keel_reduction reduction = KEEL_SUM) {
  Request made;
  made.collective = collective;
  made.dtype = dtype;
  made.reduction = reduction;
  made.count = 1000;
  return made;
}

std::string explain(const HierarchicalPlan& plan) {
  std::string text;
  JsonWriter json(&text, JsonLayout::kOneLine);
  plan.explain(json);
  return text;
}

bool says(const HierarchicalPlan& plan, const std::string& text) {
  return explain(plan).find(text) != std::string::npos;
}

TEST(HierarchicalPlan, OneIslandOfAll) {
  const HierarchicalPlan plan({rank_on("sim:0"), rank_on("sim:1"), rank_on("sim:2")});
  EXPECT_EQ(plan.islands(), (Hierarchical{{0, 1, 2}}));
  EXPECT_TRUE(plan.is_one());
  EXPECT_TRUE(plan.takes(request(KEEL_ALL_TO_ALL), /*is_small=*/true));
  EXPECT_TRUE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_AVG), false));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT64), false));
  Request nothing = request(KEEL_ALL_REDUCE);
  nothing.count = 0;
  EXPECT_FALSE(plan.takes(nothing, false));
  EXPECT_TRUE(says(plan, R"({"ranks": "ranks 0-2", "library": "ccl 1"})")) << explain(plan);
}

TEST(HierarchicalPlan, NoIsland) {
  const HierarchicalPlan plan(
      {without(Why::kNoLibrary), rank_on("sim:0"), without(Why::kForbidden)});
  EXPECT_EQ(plan.islands(), (Hierarchical{{0}, {1}, {2}}));
  EXPECT_FALSE(plan.any());
  EXPECT_FALSE(plan.is_one());
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE), false));
  EXPECT_TRUE(says(plan, R"("islands": [], )")) << explain(plan);
  EXPECT_TRUE(says(plan, R"({"ranks": "rank 0", "why": "no native library"})"));
  EXPECT_TRUE(says(plan, R"({"ranks": "rank 1", "why": "no other rank has its library"})"));
  EXPECT_TRUE(says(plan, R"({"ranks": "rank 2", "why": "forbidden"})"));
  EXPECT_FALSE(HierarchicalPlan({rank_on("sim:0")}).any());
}

// Nor do a chip and an emulated one, which their libraries' names tell.
TEST(HierarchicalPlan, RanksWithTwoVersionsOfALibraryFormNoIsland) {
  const HierarchicalPlan plan({rank_on("ascend:0", "HCCL of ACL 1.16.0 on Ascend910B"),
                               rank_on("ascend:1", "HCCL of ACL 1.15.0 on Ascend910B"),
                               rank_on("ascend:2", "HCCL of ACL 1.16.0 on Ascend_emulated")});
  EXPECT_EQ(plan.islands(), (Hierarchical{{0}, {1}, {2}}));
  EXPECT_FALSE(plan.any());
}

TEST(HierarchicalPlan, RanksInterleavedInAnyOrder) {
  const HierarchicalPlan plan({rank_on("a:1", "a"), rank_on("b:0", "b"), without(Why::kOneQueue),
                               rank_on("b:1", "b"), rank_on("a:0", "a"), rank_on("b:2", "b")});
  EXPECT_EQ(plan.islands(), (Hierarchical{{0, 4}, {1, 3, 5}, {2}}));
  EXPECT_EQ(plan.island_of(3), 1u);
  EXPECT_EQ(plan.index_of(3), 1u);
  EXPECT_EQ(plan.lanes(), 1u);  // the number of ranks of the smallest island
  EXPECT_FALSE(plan.is_one());
  EXPECT_TRUE(says(plan, "one hardware queue")) << explain(plan);
  const HierarchicalPlan even({rank_on("a:1", "a"), rank_on("b:0", "b"), rank_on("b:1", "b"),
                               rank_on("a:0", "a"), rank_on("b:2", "b")});
  EXPECT_EQ(even.lanes(), 2u);
}

TEST(HierarchicalPlan, SeveralIslandsTakeWhatTheyCanPutTogether) {
  const HierarchicalPlan plan({rank_on("sim:0"), rank_on("sim:1"), without(Why::kNoLibrary)});
  EXPECT_TRUE(plan.takes(request(KEEL_ALL_REDUCE), false));
  EXPECT_TRUE(plan.takes(request(KEEL_BROADCAST), false));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE), /*is_small=*/true));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_AVG), false));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_PREMUL_SUM), false));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT64), false));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT16), false));
  EXPECT_TRUE(plan.takes(request(KEEL_ALL_REDUCE, KEEL_FLOAT16, KEEL_MAX), false));
  EXPECT_FALSE(plan.takes(request(KEEL_ALL_GATHER), false));
}

// The pieces are the lanes' shares.
TEST(HierarchicalPlan, IslandsOfOneSizeTakePiecesToo) {
  const HierarchicalPlan even(
      {rank_on("a:0", "a"), rank_on("b:0", "b"), rank_on("b:1", "b"), rank_on("a:1", "a")});
  EXPECT_TRUE(even.is_even());
  EXPECT_TRUE(even.takes(request(KEEL_ALL_GATHER), false));
  EXPECT_TRUE(even.takes(request(KEEL_REDUCE_SCATTER), false));
  EXPECT_FALSE(even.takes(request(KEEL_ALL_GATHER), /*is_small=*/true));
  EXPECT_FALSE(even.takes(request(KEEL_ALL_GATHER, KEEL_FLOAT64), false));
  EXPECT_FALSE(even.takes(request(KEEL_REDUCE_SCATTER, KEEL_FLOAT32, KEEL_AVG), false));
  EXPECT_FALSE(even.takes(request(KEEL_REDUCE_SCATTER, KEEL_FLOAT16), false));
  EXPECT_FALSE(even.takes(request(KEEL_REDUCE), false));
  EXPECT_FALSE(even.takes(request(KEEL_ALL_TO_ALL), false));
  const HierarchicalPlan uneven({rank_on("a:0", "a"), rank_on("b:0", "b"), rank_on("b:1", "b"),
                                 rank_on("a:1", "a"), rank_on("b:2", "b")});
  EXPECT_FALSE(uneven.is_even());
  EXPECT_FALSE(uneven.takes(request(KEEL_ALL_GATHER), false));
  EXPECT_FALSE(uneven.takes(request(KEEL_REDUCE_SCATTER), false));
}

TEST(HierarchicalPlan, WhatAllCanIsWhatEachCan) {
  NativeRank other = rank_on("sim:1");
  other.offer.capability = all_but(KEEL_BFLOAT16);
  const HierarchicalPlan plan({rank_on("sim:0"), other});
  EXPECT_TRUE(plan.can(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM));
  EXPECT_FALSE(plan.can(KEEL_ALL_REDUCE, KEEL_BFLOAT16, KEEL_SUM));
  EXPECT_FALSE(plan.can(KEEL_ALL_REDUCE, KEEL_FLOAT64, KEEL_SUM));
}

TEST(HierarchicalPlan, ALibraryOfOneProcessStaysInIt) {
  const std::vector<NativeRank> ranks = {rank_on("sim:0", "ccl", 1), rank_on("sim:0", "ccl", 2),
                                         rank_on("sim:1", "ccl", 1), rank_on("sim:1", "ccl", 2),
                                         rank_on("sim:0", "ccl", 3)};
  const HierarchicalPlan plan(ranks);
  EXPECT_EQ(plan.islands(), (Hierarchical{{0, 2}, {1, 3}, {4}}));
  EXPECT_TRUE(says(plan, "its library does not reach the others")) << explain(plan);
  std::vector<NativeRank> wider = ranks;
  for (NativeRank& rank : wider) rank.offer.reach = KEEL_CCL_HOST;
  EXPECT_EQ(HierarchicalPlan(wider).islands(), (Hierarchical{{0, 1, 2, 3, 4}}));
  wider[2].offer.reach = 77;  // as corrupted by another process
  EXPECT_EQ(HierarchicalPlan(wider).islands(), (Hierarchical{{0, 1, 3, 4}, {2}}));
}

TEST(HierarchicalPlan, OneRankADevice) {
  const HierarchicalPlan plan(
      {rank_on("sim:0"), rank_on("sim:1"), rank_on("sim:0"), rank_on("sim:1"), rank_on("sim:2")});
  EXPECT_EQ(plan.islands(), (Hierarchical{{0, 1, 4}, {2}, {3}}));
  EXPECT_TRUE(
      says(plan, R"({"ranks": "ranks 2, 3", "why": "its device is another rank's already"})"))
      << explain(plan);
  // The uuid identifies the chip, under any device name in the two processes.
  NativeRank first = rank_on("gpu:0", "ccl", 1, KEEL_CCL_NETWORK);
  NativeRank second = rank_on("gpu:3", "ccl", 2, KEEL_CCL_NETWORK);
  first.offer.uuid[5] = second.offer.uuid[5] = 9;
  EXPECT_EQ(HierarchicalPlan({first, second}).islands(), (Hierarchical{{0}, {1}}));
  second.offer.uuid[5] = 8;
  EXPECT_EQ(HierarchicalPlan({first, second}).islands(), (Hierarchical{{0, 1}}));
}

TEST(HierarchicalPlan, TwoInstancesOfAPluginAreTwoIslands) {
  const HierarchicalPlan plan(
      {rank_on("sim:0"), rank_on("sim#2:0"), rank_on("sim:1"), rank_on("sim#2:1")});
  EXPECT_EQ(plan.islands(), (Hierarchical{{0, 2}, {1, 3}}));
  EXPECT_EQ(plan.lanes(), 2u);
}

TEST(HierarchicalPlan, NameOfALibraryIsEscaped) {
  NativeRank first = rank_on("sim:0", "a\"\\\n");
  NativeRank second = rank_on("sim:1", "a\"\\\n");
  EXPECT_TRUE(says(HierarchicalPlan({first, second}), R"("library": "a\"\\\u000a")"));
  first.offer.library.fill('x');  // not zero-terminated
  second.offer.library.fill('x');
  EXPECT_TRUE(says(HierarchicalPlan({first, second}), '"' + std::string(64, 'x') + '"'));
}

}  // namespace
}  // namespace keel
