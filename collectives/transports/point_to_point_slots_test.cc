// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/point_to_point_slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>

#include "collectives/testing/test_segment.h"

namespace keel::testing {
namespace {

TEST(PointToPointSlotsTest, EachPairHasItsOwnSlots) {
  constexpr uint32_t kWorld = 3;
  const auto segment = make_segment(kWorld);
  PointToPointSlots& messages = segment->messages();
  std::set<const PointToPointSlot*> slots;
  for (uint32_t from = 0; from < kWorld; ++from) {
    for (uint32_t to = 0; to < kWorld; ++to) {
      for (uint32_t at = 0; at < PointToPointSlots::kSlots; ++at) {
        slots.insert(&messages.slot(from, to, at));
      }
      EXPECT_EQ(&messages.slot(from, to, 0), &messages.slot(from, to, PointToPointSlots::kSlots));
    }
  }
  EXPECT_EQ(slots.size(), kWorld * kWorld * PointToPointSlots::kSlots);
}

TEST(PointToPointSlotsTest, BuffersOfARankAreApart) {
  const auto segment = make_segment(2);
  PointToPointSlots& messages = segment->messages();
  EXPECT_EQ(messages.buffer(0, 1) - messages.buffer(0, 0),
            ptrdiff_t{PointToPointSlots::kBufferBytes});
  EXPECT_EQ(messages.buffer(1, 0) - messages.buffer(0, 0),
            ptrdiff_t{PointToPointSlots::kBuffers * PointToPointSlots::kBufferBytes});
}

// Messages there and back between two ranks that park at once.
TEST(PointToPointSlotsTest, ParkedRankWakesAtAChangeOfItsSlots) {
  const auto segment = make_segment(2);
  PointToPointSlots& messages = segment->messages();
  constexpr uint64_t kMessages = 200;
  const std::atomic<bool> never{false};
  const auto await = [&](uint32_t rank, const std::atomic<uint64_t>& word, uint64_t value) {
    WaitContext wait_context(/*timeout_ns=*/60'000'000'000, never);
    for (int wait = 0; wait < 100; ++wait) wait_context.spin().note(false);
    return messages.await(
        rank, [&] { return word.load(std::memory_order_acquire) == value; },
        [&](uint32_t peer) { return peer != rank; }, [] {}, wait_context);
  };
  std::thread receiver([&] {
    for (uint64_t sequence = 0; sequence < kMessages; ++sequence) {
      PointToPointSlot& slot = messages.slot(0, 1, sequence);
      ASSERT_TRUE(await(1, slot.sequence, sequence + 1).ok());
      ASSERT_EQ(slot.count, sequence);
      slot.answered.store(sequence + 1, std::memory_order_release);
      messages.notify(0);
    }
  });
  for (uint64_t sequence = 0; sequence < kMessages; ++sequence) {
    PointToPointSlot& slot = messages.slot(0, 1, sequence);
    slot.count = sequence;
    slot.sequence.store(sequence + 1, std::memory_order_release);
    messages.notify(1);
    EXPECT_TRUE(await(0, slot.answered, sequence + 1).ok());
  }
  receiver.join();
}

}  // namespace
}  // namespace keel::testing
