// SPDX-License-Identifier: Apache-2.0
#include "core/free_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace keel {
namespace {

// Owns blocks of requested sizes. Bins link the blocks, so addresses must be stable.
class Blocks {
 public:
  MemoryBlock& of(uint64_t size) {
    MemoryBlock& block = blocks_.emplace_back();
    block.size = size;
    return block;
  }

 private:
  std::deque<MemoryBlock> blocks_;
};

TEST(FreeBinsTest, GiveTheSmallestThatIsLargeEnough) {
  Blocks blocks;
  FreeBins bins;
  EXPECT_EQ(bins.best_fit(1), nullptr);
  MemoryBlock& small = blocks.of(512);
  MemoryBlock& middle = blocks.of(1536);
  MemoryBlock& large = blocks.of(uint64_t{3} << 30);
  for (MemoryBlock* block : {&large, &small, &middle}) bins.insert(*block);
  EXPECT_EQ(bins.best_fit(1), &small);
  EXPECT_EQ(bins.best_fit(512), &small);
  EXPECT_EQ(bins.best_fit(513), &middle);
  EXPECT_EQ(bins.best_fit(1537), &large);
  EXPECT_EQ(bins.best_fit((uint64_t{3} << 30) + 1), nullptr);
  bins.remove(middle);
  EXPECT_EQ(bins.best_fit(513), &large);
  bins.remove(large);
  EXPECT_EQ(bins.best_fit(513), nullptr);
}

TEST(FreeBinsTest, TellSizesOfOneBinApart) {
  // 32 bins for each power of two: both blocks share a bin.
  constexpr uint64_t kMiB = 1 << 20;
  Blocks blocks;
  FreeBins bins;
  MemoryBlock& more = blocks.of(64 * kMiB + 4096);
  MemoryBlock& less = blocks.of(64 * kMiB + 512);
  bins.insert(more);
  bins.insert(less);
  EXPECT_EQ(bins.best_fit(64 * kMiB), &less);
  EXPECT_EQ(bins.best_fit(64 * kMiB + 1024), &more);
  EXPECT_EQ(bins.best_fit(64 * kMiB + 8192), nullptr);
}

TEST(FreeBinsTest, AmongEqualsTheLastOneFreedComesFirst) {
  Blocks blocks;
  FreeBins bins;
  MemoryBlock& first = blocks.of(4096);
  MemoryBlock& second = blocks.of(4096);
  bins.insert(first);
  bins.insert(second);
  EXPECT_EQ(bins.best_fit(4096), &second);
  EXPECT_EQ(bins.next(second), &first);
  EXPECT_EQ(bins.next(first), nullptr);
}

TEST(FreeBinsTest, HoldAnySize) {
  Blocks blocks;
  FreeBins bins;
  MemoryBlock& least = blocks.of(1);
  MemoryBlock& most = blocks.of(UINT64_MAX);
  bins.insert(most);
  bins.insert(least);
  EXPECT_EQ(bins.best_fit(0), &least);
  EXPECT_EQ(bins.best_fit(2), &most);
  EXPECT_EQ(bins.best_fit(UINT64_MAX), &most);
}

// Compares the bins with a linearly searched list.
TEST(FreeBinsTest, AgreeWithASimplerList) {
  std::mt19937_64 random(7);
  Blocks blocks;
  FreeBins bins;
  std::vector<MemoryBlock*> held;
  const auto size = [&] {
    const uint64_t limit = uint64_t{1} << (random() % 40 + 1);
    return random() % limit + 1;
  };
  for (int round = 0; round < 20000; ++round) {
    if (held.empty() || random() % 3 != 0) {
      held.push_back(&blocks.of(size()));
      bins.insert(*held.back());
    } else {
      const size_t index = random() % held.size();
      bins.remove(*held[index]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
    }
    if (held.size() > 200) {
      bins.remove(*held.front());
      held.erase(held.begin());
    }
    const uint64_t wanted = size();
    uint64_t best = 0;
    for (const MemoryBlock* block : held) {
      if (block->size >= wanted && (best == 0 || block->size < best)) best = block->size;
    }
    const MemoryBlock* const found = bins.best_fit(wanted);
    ASSERT_EQ(found == nullptr ? 0 : found->size, best) << "round " << round;
  }
  // next() visits all blocks, in order of size.
  std::vector<uint64_t> sizes;
  for (const MemoryBlock* block : held) sizes.push_back(block->size);
  std::sort(sizes.begin(), sizes.end());
  const MemoryBlock* block = bins.best_fit(0);
  for (const uint64_t expected : sizes) {
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->size, expected);
    block = bins.next(*block);
  }
  EXPECT_EQ(block, nullptr);
}

}  // namespace
}  // namespace keel
