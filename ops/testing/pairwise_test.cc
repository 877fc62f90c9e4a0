// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/pairwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace keel::ops {
namespace {

using Rows = std::vector<std::vector<size_t>>;

bool meet(const Rows& rows, const Exclusion& pair) {
  return std::any_of(rows.begin(), rows.end(), [&](const std::vector<size_t>& row) {
    return row[pair.factor] == pair.level && row[pair.other_factor] == pair.other_level;
  });
}

// Checks that rows cover every pair of levels not in |exclusions|.
void expect_covered(const std::vector<size_t>& levels, const std::vector<Exclusion>& exclusions) {
  const Rows rows = pairwise(levels, exclusions);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), levels.size());
    for (size_t factor = 0; factor < levels.size(); ++factor) {
      ASSERT_LT(row[factor], levels[factor]);
    }
  }
  for (size_t a = 0; a < levels.size(); ++a) {
    for (size_t b = a + 1; b < levels.size(); ++b) {
      for (size_t i = 0; i < levels[a]; ++i) {
        for (size_t j = 0; j < levels[b]; ++j) {
          const bool is_excluded =
              std::any_of(exclusions.begin(), exclusions.end(), [&](const Exclusion& each) {
                return (each.factor == a && each.level == i && each.other_factor == b &&
                        each.other_level == j) ||
                       (each.factor == b && each.level == j && each.other_factor == a &&
                        each.other_level == i);
              });
          EXPECT_EQ(meet(rows, {a, i, b, j}), !is_excluded) << a << i << b << j;
        }
      }
    }
  }
}

TEST(Pairwise, EveryPairMeets) {
  expect_covered({3, 6, 4}, {});
  expect_covered({5, 5, 5, 5, 2, 2, 2, 3, 4}, {});
  expect_covered({12, 1, 6}, {});
  expect_covered({2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {});
}

TEST(Pairwise, ExcludedPairsNeverMeetAndAllOthersDo) {
  expect_covered({3, 4, 2}, {{0, 1, 1, 3}, {1, 2, 2, 1}});
  expect_covered({3, 3, 3, 3}, {{0, 1, 1, 1}, {0, 2, 1, 1}, {2, 1, 1, 2}, {3, 2, 0, 1}});
}

TEST(Pairwise, OneFactorHasARowALevel) {
  EXPECT_EQ(pairwise({3}), (Rows{{0}, {1}, {2}}));
  EXPECT_TRUE(pairwise({}).empty());
}

TEST(Pairwise, RowsAreFewAndTheSameEachTime) {
  const std::vector<size_t> levels = {5, 5, 5, 5, 2, 2, 2, 3, 4};
  const Rows rows = pairwise(levels);
  EXPECT_EQ(rows, pairwise(levels));
  EXPECT_LE(rows.size(), 45U);  // of 48000; 25 is the minimum
  EXPECT_EQ(std::set<std::vector<size_t>>(rows.begin(), rows.end()).size(), rows.size());
}

}  // namespace
}  // namespace keel::ops
