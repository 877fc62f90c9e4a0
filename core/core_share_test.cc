// SPDX-License-Identifier: Apache-2.0
#include "core/core_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace keel {
namespace {

std::vector<int> share_of(const std::vector<int>& usable, uint32_t rank, uint32_t ranks) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : usable) CPU_SET(core, &set);
  const cpu_set_t share = core_share(set, rank, ranks);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &share)) cores.push_back(core);
  }
  return cores;
}

using Cores = std::vector<int>;

TEST(CoreShare, GivesEachRankAsManyInOrder) {
  EXPECT_EQ(share_of({1, 3, 5, 7}, 0, 2), (Cores{1, 3}));
  EXPECT_EQ(share_of({1, 3, 5, 7}, 1, 2), (Cores{5, 7}));
  EXPECT_EQ(share_of({1, 3, 5, 7}, 0, 1), (Cores{1, 3, 5, 7}));
}

TEST(CoreShare, GivesWhatIsLeftOverToSomeAndToNoneTwice) {
  EXPECT_EQ(share_of({0, 1, 2, 3, 4}, 0, 3), (Cores{0}));
  EXPECT_EQ(share_of({0, 1, 2, 3, 4}, 1, 3), (Cores{1, 2}));
  EXPECT_EQ(share_of({0, 1, 2, 3, 4}, 2, 3), (Cores{3, 4}));
}

TEST(CoreShare, GivesNeighboursOneCoreWhereThereAreFew) {
  std::vector<int> ranks_on(2);
  for (uint32_t rank = 0; rank < 7; ++rank) {
    const Cores cores = share_of({4, 1000}, rank, 7);
    ASSERT_EQ(cores.size(), 1u);
    ++ranks_on[cores[0] == 4 ? 0 : 1];
  }
  EXPECT_EQ(ranks_on, (std::vector<int>{4, 3}));
}

}  // namespace
}  // namespace keel
