// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>
#include <vector>

namespace keel {
namespace {

TEST(ProcessorsTest, OwnAreThoseThatTheThreadMayUse) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  size_t last = sizeof(usable) * 8 - 1;
  while (!CPU_ISSET(last, &usable)) --last;
  std::string bound;
  std::thread([&] {
    cpu_set_t alone;
    CPU_ZERO(&alone);
    CPU_SET(last, &alone);
    if (sched_setaffinity(0, sizeof(alone), &alone) == 0) bound = own_processors();
  }).join();
  std::string expected(last / 8 + 1, '\0');
  expected.back() = static_cast<char>(1 << last % 8);
  EXPECT_EQ(bound, expected);
  EXPECT_EQ(own_processors().size(), expected.size());
}

TEST(ProcessorsTest, RanksAreOversubscribedByTheProcessorsOfAll) {
  using Ranks = std::vector<std::string>;
  EXPECT_FALSE(are_oversubscribed(Ranks{"\x03", "\x03"}));
  EXPECT_TRUE(are_oversubscribed(Ranks{"\x03", "\x03", "\x03"}));
  // Each rank bound to a processor of its own; the last one is the first of the second byte.
  EXPECT_FALSE(are_oversubscribed(Ranks{"\x01", "\x02", std::string("\0\x01", 2)}));
  EXPECT_TRUE(are_oversubscribed(Ranks{"\x01", "\x01"}));
  EXPECT_FALSE(are_oversubscribed(Ranks{"\x01", "\x01", ""}));
}

}  // namespace
}  // namespace keel
