// SPDX-License-Identifier: Apache-2.0
// Which accesses of one address space conflict.
#include "core/validation/access_map.h"

#include <gtest/gtest.h>

#include <random>

namespace keel::validation {
namespace {

Mark mark(uint32_t slot, uint64_t epoch) {
  return {slot, epoch, nullptr};
}

// Returns timeline 0's knowledge of timeline 1.
VectorClock knows(uint64_t epoch) {
  VectorClock clock;
  clock.set(1, epoch);
  return clock;
}

TEST(AccessMapTest, ReadsAndWritesThatNothingOrdersConflict) {
  Conflict conflict;
  for (const bool first_writes : {false, true}) {
    for (const bool then_writes : {false, true}) {
      AccessMap map;
      EXPECT_FALSE(map.access(100, 200, first_writes, mark(1, 5), VectorClock(), &conflict));
      EXPECT_EQ(map.access(150, 250, then_writes, mark(0, 1), knows(4), &conflict),
                first_writes || then_writes);
      if (!first_writes && !then_writes) continue;
      EXPECT_EQ(conflict.other.slot, 1u);
      EXPECT_EQ(conflict.other_writes, first_writes);
      EXPECT_EQ(conflict.begin, 150u);
      EXPECT_EQ(conflict.end, 200u);
    }
  }
}

TEST(AccessMapTest, OrderedNeighbouringAndOwnAccessesDoNot) {
  AccessMap map;
  Conflict conflict;
  EXPECT_FALSE(map.access(100, 200, true, mark(1, 5), VectorClock(), &conflict));
  EXPECT_FALSE(map.access(100, 200, true, mark(1, 6), VectorClock(), &conflict)) << "its own";
  EXPECT_FALSE(map.access(0, 100, true, mark(0, 1), VectorClock(), &conflict));
  EXPECT_FALSE(map.access(200, 300, true, mark(0, 2), VectorClock(), &conflict));
  EXPECT_FALSE(map.access(100, 200, true, mark(0, 3), knows(6), &conflict)) << "after it";
  map.forget(150, 160);
  EXPECT_FALSE(map.access(150, 160, true, mark(2, 1), VectorClock(), &conflict));
  EXPECT_TRUE(map.access(149, 160, true, mark(3, 1), VectorClock(), &conflict));
}

TEST(AccessMapTest, AWriteComesAfterEveryReader) {
  AccessMap map;
  Conflict conflict;
  EXPECT_FALSE(map.access(0, 64, false, mark(1, 1), VectorClock(), &conflict));
  EXPECT_FALSE(map.access(0, 64, false, mark(2, 1), VectorClock(), &conflict));
  EXPECT_TRUE(map.access(0, 64, true, mark(0, 1), knows(1), &conflict)) << "not after 2";
  EXPECT_EQ(conflict.other.slot, 2u);
}

TEST(AccessMapTest, CellsAreJoinedAndDropped) {
  AccessMap map;
  Conflict conflict;
  for (uintptr_t at = 0; at < 1000; ++at) {
    map.access(at * 8, at * 8 + 8, at % 2 == 0, mark(1, 1), VectorClock(), &conflict);
  }
  EXPECT_EQ(map.size(), 1000u);
  map.access(0, 8000, false, mark(1, 2), VectorClock(), &conflict);
  map.access(0, 8000, true, mark(1, 3), VectorClock(), &conflict);
  EXPECT_EQ(map.size(), 1u);
  map.access(1000, 2000, false, mark(2, 1), knows(3), &conflict);
  EXPECT_EQ(map.size(), 3u);
  map.drop_before(knows(3));
  EXPECT_EQ(map.size(), 1u) << "the read is left";
}

// Compares with one mark per byte.
TEST(AccessMapTest, AgreesWithABytewiseOracle) {
  constexpr uintptr_t kBytes = 64;
  constexpr uint32_t kLines = 3;
  struct Byte {
    Mark write;
    std::vector<Mark> reads;
  };
  std::mt19937 random(7);
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  for (int round = 0; round < 50; ++round) {
    AccessMap map;
    std::vector<Byte> bytes(kBytes);
    VectorClock clocks[kLines];
    for (uint64_t epoch = 1; epoch <= 60; ++epoch) {
      const uint32_t line = below(kLines);
      if (below(3) == 0) clocks[line].join(clocks[below(kLines)]);
      clocks[line].set(line, epoch);
      const uintptr_t begin = below(kBytes);
      const uintptr_t end = begin + 1 + below(static_cast<uint32_t>(kBytes - begin));
      const bool writes = below(2) == 0;
      const Mark own = mark(line, epoch);
      const auto unordered = [&](const Mark& other) {
        return other.epoch != 0 && other.slot != line && !other.is_before(clocks[line]);
      };
      bool expected = false;
      for (uintptr_t at = begin; at < end; ++at) {
        Byte& byte = bytes[at];
        expected |= unordered(byte.write);
        if (writes) {
          for (const Mark& read : byte.reads) expected |= unordered(read);
          byte = {own, {}};
        } else {
          byte.reads.push_back(own);
        }
      }
      Conflict conflict;
      ASSERT_EQ(map.access(begin, end, writes, own, clocks[line], &conflict), expected)
          << "round " << round << ", epoch " << epoch;
    }
  }
}

}  // namespace
}  // namespace keel::validation
