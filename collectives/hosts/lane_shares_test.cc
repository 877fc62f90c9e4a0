// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/lane_shares.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(LaneSharesTest, TextHoldsEveryWeight) {
  for (const LaneShares& shares : {LaneShares{}, LaneShares{1}, LaneShares{1000, 1, 20}}) {
    LaneShares read = {7};
    ASSERT_TRUE(read_lane_shares(write_lane_shares(shares), &read));
    EXPECT_EQ(read, shares);
  }
}

TEST(LaneSharesTest, MalformedTextIsRefused) {
  LaneShares read;
  for (const char* text : {"", "0", "1,0", "1001", "1,", ",1", "1;2", "1 ,2", "-1", "a", "1.5"}) {
    EXPECT_FALSE(read_lane_shares(text, &read)) << text;
  }
  std::string many = "1";
  for (size_t i = 0; i < kMostLaneShares; ++i) many += ",1";
  EXPECT_FALSE(read_lane_shares(many, &read));
}

TEST(LaneSharesTest, PiecesCoverAllElementsInWholeLines) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{15}, uint64_t{17}, uint64_t{1000},
                               uint64_t{1} << 20, UINT64_MAX / 4}) {
    for (const LaneShares& shares :
         {LaneShares{}, LaneShares{2, 1, 1}, LaneShares{1, 1000, 1}, LaneShares{1, 2}}) {
      const std::vector<Piece> pieces = divide_by_lanes(count, 4, 3, shares);
      ASSERT_EQ(pieces.size(), 3u);
      uint64_t end = 0;
      for (const Piece& piece : pieces) {
        EXPECT_EQ(piece.offset, end);
        EXPECT_TRUE(piece.count == 0 || piece.offset % 16 == 0) << piece.offset;
        end = piece.offset + piece.count;
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(LaneSharesTest, PiecesHaveTheRatioOfTheWeights) {
  const std::vector<Piece> pieces = divide_by_lanes(4096, 4, 3, {2, 1, 1});
  EXPECT_EQ(pieces[0].count, 2048u);
  EXPECT_EQ(pieces[1].count, 1024u);
  EXPECT_EQ(pieces[2].count, 1024u);
  // Weights for another number of lanes.
  EXPECT_EQ(divide_by_lanes(4096, 4, 2, {2, 1, 1})[0].count, 2048u);
}

}  // namespace
}  // namespace keel
