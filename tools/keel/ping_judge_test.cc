// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/ping_judge.h"

#include <gtest/gtest.h>

namespace keel::cli {
namespace {

PingTable table_of(const std::vector<double>& gb_per_s) {
  return {{"a", "b", "c"}, std::vector<double>(9, 20), gb_per_s};
}

TEST(PingJudgeTest, AlikeLinksAreNotNamed) {
  EXPECT_EQ(judge(table_of({0, 2, 2, 2, 0, 1.9, 2, 1.9, 0})).rfind("All links are alike", 0), 0u);
}

TEST(PingJudgeTest, SlowLinkIsNamed) {
  EXPECT_EQ(judge(table_of({0, 2, 2, 2, 0, 0.5, 2, 0.5, 0})),
            "The link between b and c is slow: 0.5 GB/s, the median is 2 GB/s.");
}

TEST(PingJudgeTest, SlowHostIsNamed) {
  EXPECT_EQ(judge(table_of({0, 2, 0.5, 2, 0, 0.4, 0.5, 0.4, 0})),
            "Host c is slow: its fastest link moves 0.5 GB/s, a link between others 2 GB/s.");
}

TEST(PingJudgeTest, FewerHostsAreDescribed) {
  EXPECT_EQ(judge({{"a"}, {0}, {0}}), "All ranks are on one host.");
  EXPECT_EQ(judge({{"a", "b"}, {0, 9, 9, 0}, {0, 3, 3, 0}}),
            "The link between a and b moves 3 GB/s.");
}

TEST(PingJudgeTest, TableHasALineForEachHost) {
  const PingTable table = {{"a", "b"}, {0, 9.5, 9.5, 0}, {0, 3, 3, 0}};
  EXPECT_EQ(write_table(table, table.round_trip_us),
            "                 a         b\n"
            "a                -       9.5\n"
            "b              9.5         -\n");
}

}  // namespace
}  // namespace keel::cli
