// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace keel {
namespace {

TEST(TraceRing, IsFirstInFirstOutAndBounded) {
  TraceRing<int> ring(4);
  EXPECT_EQ(ring.capacity(), 4u);
  int value = 0;
  EXPECT_FALSE(ring.pop(&value));
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i + turn));
    EXPECT_FALSE(ring.push(9));
    EXPECT_EQ(ring.size(), 4u);
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ring.pop(&value));
      EXPECT_EQ(value, i + turn);
    }
    EXPECT_EQ(ring.size(), 0u);
  }
}

// Pushes and pops may overtake a call of size(). A size below zero would read as a very large one,
// and the ring would seem full.
TEST(TraceRing, NeverSeemsFullWhileOneItemComesAndGoes) {
  constexpr uint64_t kSize = 1 << 20;
  TraceRing<int> ring(kSize);
  std::atomic<bool> stopping{false};
  std::thread other([&] {
    int value = 0;
    while (!stopping.load(std::memory_order_relaxed)) {
      EXPECT_TRUE(ring.push(1));
      EXPECT_TRUE(ring.pop(&value));
    }
  });
  // More threads than cores, so that some are preempted within size().
  std::atomic<uint64_t> full{0};
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 4; ++asker) {
    askers.emplace_back([&] {
      for (int i = 0; i < 3'000'000; ++i)
        if (ring.size() >= kSize) ++full;
    });
  }
  for (std::thread& asker : askers) asker.join();
  stopping = true;
  other.join();
  EXPECT_EQ(full, 0u);
}

}  // namespace
}  // namespace keel
