// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/rank_list.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(RankListTest, RunsAreRanges) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({3, 4}), "ranks 3, 4");
  EXPECT_EQ(rank_list({0, 2}), "ranks 0, 2");
  EXPECT_EQ(rank_list({3, 4, 5, 6, 7, 12}), "ranks 3-7, 12");
  EXPECT_EQ(rank_list({0, 1, 2, 4, 5, 4294967295}), "ranks 0-2, 4, 5, 4294967295");
}

TEST(RankListTest, IsBounded) {
  std::vector<uint32_t> odd;
  for (uint32_t rank = 4000000001; rank < 4000004000; rank += 2) odd.push_back(rank);
  const std::string text = rank_list(odd);
  EXPECT_TRUE(text.ends_with(" and 1984 more")) << text;
  EXPECT_LE(text.size(), 400u);
}

}  // namespace
}  // namespace keel
