// SPDX-License-Identifier: Apache-2.0
#include "core/block_store.h"

#include <gtest/gtest.h>

#include <new>
#include <random>
#include <vector>

#include "core/stream.h"
#include "core/testing/host_memory.h"

namespace keel {
namespace {

using keel::testing::t_until_failure;

constexpr uint64_t kGranule = 512;
constexpr uint64_t kMiB = 1 << 20;
constexpr keel_memory_kind kDevice = KEEL_MEMORY_DEVICE;

// Never dereferenced: blocks compare timelines by address.
Stream& no_stream() {
  alignas(Stream) static std::byte place[sizeof(Stream)];
  return reinterpret_cast<Stream&>(place);
}

class BlockStoreTest : public ::testing::Test {
 protected:
  // No memory lies behind the addresses.
  static char* address(uint64_t offset) { return reinterpret_cast<char*>((1ull << 40) + offset); }
  static MemorySegment segment(uint64_t offset, uint64_t size, SizeClass size_class,
                               keel_memory_kind kind = kDevice) {
    return {address(offset), size, kind, nullptr, size_class};
  }
  MemoryBlock* add(uint64_t offset, uint64_t size, SizeClass size_class) {
    return store_.add_segment(segment(offset, size, size_class));
  }
  // Allocates a block as Memory does.
  MemoryBlock* allocate(SizeClass size_class, uint64_t size) {
    store_.prepare_split();
    store_.join_for(size_class, size);
    MemoryBlock* const block = store_.bins(kDevice, size_class).best_fit(size);
    if (block == nullptr) return nullptr;
    store_.take(*block, size);
    block->requested = size;
    return block;
  }
  void free(MemoryBlock& block) {
    block.requested = 0;
    store_.give(block);
  }
  struct Piece {
    uint64_t offset;
    uint64_t size;
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces() {
    std::vector<Piece> all;
    store_.for_each_block([&](const MemoryBlock& block) {
      all.push_back({static_cast<uint64_t>(block.base - address(0)), block.size});
    });
    return all;
  }
  // Checks that blocks tile each segment, that neighbours are linked, and that free blocks are in
  // their bins.
  void expect_sound() {
    uint64_t bytes = 0;
    const MemoryBlock* last = nullptr;
    store_.for_each_block([&](const MemoryBlock& block) {
      bytes += block.size;
      if (last != nullptr && last->segment == block.segment) {
        EXPECT_EQ(last->base + last->size, block.base);
        EXPECT_EQ(last->after, &block);
        EXPECT_EQ(block.before, last);
      } else {
        EXPECT_EQ(block.base, block.segment->base);
        EXPECT_EQ(block.before, nullptr);
      }
      EXPECT_EQ(store_.find(block.base), &block);
      EXPECT_EQ(store_.find(block.base + block.size - 1), &block);
      last = &block;
    });
    EXPECT_EQ(bytes, store_.reserved());
  }

  BlockStore store_{kGranule};
};

// ---- segments -----------------------------------------------------------------------

TEST_F(BlockStoreTest, SegmentsDoNotOverlap) {
  ASSERT_NE(add(4 * kMiB, 2 * kMiB, SizeClass::kSmall), nullptr);
  EXPECT_EQ(add(4 * kMiB, kMiB, SizeClass::kSmall), nullptr);
  EXPECT_EQ(add(5 * kMiB, 2 * kMiB, SizeClass::kSmall), nullptr);
  EXPECT_EQ(add(3 * kMiB, 2 * kMiB, SizeClass::kSmall), nullptr);
  EXPECT_EQ(store_.reserved(), 2 * kMiB);
  EXPECT_NE(add(6 * kMiB, kMiB, SizeClass::kSmall), nullptr);
  EXPECT_NE(add(3 * kMiB, kMiB, SizeClass::kSmall), nullptr);
  EXPECT_EQ(store_.reserved(), 4 * kMiB);
  expect_sound();
}

TEST_F(BlockStoreTest, FindsTheBlockOfAnyAddress) {
  MemoryBlock* const block = add(kMiB, kMiB, SizeClass::kHuge);
  EXPECT_EQ(store_.find(address(kMiB)), block);
  EXPECT_EQ(store_.find(address(2 * kMiB - 1)), block);
  EXPECT_EQ(store_.find(address(kMiB - 1)), nullptr);
  EXPECT_EQ(store_.find(address(2 * kMiB)), nullptr);
  EXPECT_EQ(store_.find(nullptr), nullptr);
}

TEST_F(BlockStoreTest, GivesBackAsFewIdleSegmentsAsItCan) {
  for (uint64_t i = 0; i < 4; ++i) add(i * 16 * kMiB, (i + 1) * kMiB, SizeClass::kHuge);
  MemoryBlock* const used = allocate(SizeClass::kHuge, 4 * kMiB);
  ASSERT_NE(used, nullptr);
  const MemoryBlock* const busy = store_.find(address(0));
  const auto is_done = [&](const MemoryBlock& block) { return &block != busy; };
  EXPECT_TRUE(store_.remove_idle(0, is_done).empty());
  auto removed = store_.remove_idle(2 * kMiB, is_done);  // smallest sufficient segment
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].base, address(16 * kMiB));
  EXPECT_EQ(store_.find(address(16 * kMiB)), nullptr);
  removed = store_.remove_idle(UINT64_MAX, is_done);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].size, 3 * kMiB);
  EXPECT_EQ(store_.reserved(), 5 * kMiB) << "one in use, one not done";
  EXPECT_EQ(store_.remove_all().size(), 2u);
  EXPECT_EQ(store_.reserved(), 0u);
}

TEST_F(BlockStoreTest, WhatIsRememberedOfAGoneBlockNoLongerHolds) {
  MemoryBlock* const block = add(0, kMiB, SizeClass::kHuge);
  const uint64_t generation = block->generation.load();
  store_.remove_all();
  EXPECT_NE(block->generation.load(), generation);  // the node is kept
}

// ---- cutting and joining ------------------------------------------------------------

TEST_F(BlockStoreTest, CutsToSizeAndKeepsTheRest) {
  add(0, 2 * kMiB, SizeClass::kSmall);
  EXPECT_EQ(allocate(SizeClass::kSmall, 1000)->base, address(0));
  EXPECT_EQ(allocate(SizeClass::kSmall, 512)->base, address(1024));
  EXPECT_EQ(pieces(), (std::vector<Piece>{{0, 1024}, {1024, 512}, {1536, 2 * kMiB - 1536}}));
  EXPECT_EQ(store_.splits(), 2u);
  EXPECT_EQ(allocate(SizeClass::kSmall, 2 * kMiB), nullptr);
  expect_sound();
}

TEST_F(BlockStoreTest, SmallRestsAreLeftToTheBlock) {
  add(0, 8 * kMiB, SizeClass::kMedium);
  EXPECT_EQ(allocate(SizeClass::kMedium, 8 * kMiB - (32 << 10))->size, 8 * kMiB);
  add(16 * kMiB, 80 * kMiB, SizeClass::kHuge);
  EXPECT_EQ(allocate(SizeClass::kHuge, 70 * kMiB)->size, 80 * kMiB) << "huge ones are not cut";
  EXPECT_EQ(store_.splits(), 0u);
  expect_sound();
}

TEST_F(BlockStoreTest, NeighboursAreJoined) {
  for (const SizeClass size_class : {SizeClass::kSmall, SizeClass::kMedium}) {
    const uint64_t size = size_class == SizeClass::kSmall ? 4096 : 2 * kMiB;
    const uint64_t base = size_class == SizeClass::kSmall ? 0 : 64 * kMiB;
    add(base, 4 * size, size_class);
    MemoryBlock* blocks[4];
    for (MemoryBlock*& block : blocks) block = allocate(size_class, size);
    free(*blocks[2]);
    free(*blocks[0]);
    store_.join_recent();
    EXPECT_EQ(store_.find(address(base))->size, size) << "one in use lies between";
    free(*blocks[1]);
    free(*blocks[3]);
    store_.join_recent();
    EXPECT_EQ(store_.find(address(base))->size, 4 * size);
    EXPECT_EQ(store_.bins(kDevice, size_class).best_fit(4 * size)->base, address(base));
    expect_sound();
  }
  EXPECT_EQ(store_.merges(), 6u);
}

TEST_F(BlockStoreTest, ALoopNeitherCutsNorJoins) {
  for (const SizeClass size_class : {SizeClass::kSmall, SizeClass::kMedium}) {
    const uint64_t size = size_class == SizeClass::kSmall ? 4096 : 2 * kMiB;
    add(size_class == SizeClass::kSmall ? 0 : 64 * kMiB, 8 * size, size_class);
    free(*allocate(size_class, size));
    const uint64_t splits = store_.splits();
    for (int i = 0; i < 200; ++i) free(*allocate(size_class, size));
    EXPECT_EQ(store_.splits(), splits);
  }
  EXPECT_EQ(store_.merges(), 0u);
  store_.join_recent();
  EXPECT_EQ(store_.merges(), 2u);
  expect_sound();
}

TEST_F(BlockStoreTest, WhatCameBackLongAgoIsJoinedUnasked) {
  add(0, 1024 * 512, SizeClass::kSmall);
  std::vector<MemoryBlock*> blocks;
  for (int i = 0; i < 1024; ++i) blocks.push_back(allocate(SizeClass::kSmall, 512));
  for (MemoryBlock* block : blocks) free(*block);
  EXPECT_GT(store_.find(address(0))->size, uint64_t{512} * 900);
  expect_sound();
}

// The remainder of a block whose merge was delayed: no later call would merge it.
TEST_F(BlockStoreTest, ARestIsJoinedWithWhatFollows) {
  add(0, 16384, SizeClass::kSmall);
  MemoryBlock* const block = allocate(SizeClass::kSmall, 8192);
  free(*block);
  store_.prepare_split();
  store_.take(*block, 4096);
  block->requested = 4096;
  EXPECT_EQ(pieces(), (std::vector<Piece>{{0, 4096}, {4096, 12288}}));
  EXPECT_EQ(store_.bins(kDevice, SizeClass::kSmall).best_fit(12288), block->after);
  expect_sound();
}

// A request of another size finds the block that was freed last merged.
TEST_F(BlockStoreTest, MediumBlocksAreJoinedForOtherSizes) {
  add(0, 16 * kMiB, SizeClass::kMedium);
  free(*allocate(SizeClass::kMedium, 4 * kMiB));
  EXPECT_EQ(allocate(SizeClass::kMedium, 14 * kMiB)->base, address(0));
  expect_sound();
}

TEST_F(BlockStoreTest, BlocksOfDifferentStreamsStayApart) {
  const Ref<Timeline> one = make_ref<Timeline>(no_stream(), 1);
  const Ref<Timeline> two = make_ref<Timeline>(no_stream(), 2);
  add(0, 4 * 4096, SizeClass::kSmall);
  MemoryBlock* blocks[4];
  for (MemoryBlock*& block : blocks) block = allocate(SizeClass::kSmall, 4096);
  blocks[0]->points.push_back({one, 5});
  blocks[1]->points.push_back({one, 9});
  blocks[2]->points.push_back({two, 3});
  blocks[3]->waits_for_all = true;
  for (MemoryBlock* block : blocks) free(*block);
  store_.join_recent();
  EXPECT_EQ(pieces(), (std::vector<Piece>{{0, 8192}, {8192, 4096}, {12288, 4096}}));
  ASSERT_EQ(blocks[0]->points.size(), 1u);
  EXPECT_EQ(blocks[0]->points[0].position, 9u) << "the later of the two";

  // Merged only if one request needs them together; the block then waits for both streams.
  const auto none = [](const MemoryBlock&) { return false; };
  const auto any = [](const MemoryBlock&) { return true; };
  const auto but_the_last = [](const MemoryBlock& block) { return !block.waits_for_all; };
  EXPECT_EQ(store_.join_run(kDevice, SizeClass::kSmall, 12288, none), nullptr);
  EXPECT_EQ(store_.join_run(kDevice, SizeClass::kMedium, 12288, any), nullptr);
  EXPECT_EQ(store_.join_run(kDevice, SizeClass::kSmall, 16384, but_the_last), nullptr);
  MemoryBlock* const joined = store_.join_run(kDevice, SizeClass::kSmall, 12288, but_the_last);
  ASSERT_EQ(joined, blocks[0]);
  EXPECT_EQ(joined->size, 12288u);
  EXPECT_EQ(joined->points.size(), 2u);
  EXPECT_EQ(store_.bins(kDevice, SizeClass::kSmall).best_fit(12288), joined);
  expect_sound();
}

TEST_F(BlockStoreTest, ARestWaitsForWhatItsBlockDid) {
  const Ref<Timeline> one = make_ref<Timeline>(no_stream(), 1);
  add(0, 8192, SizeClass::kSmall);
  MemoryBlock* const whole = allocate(SizeClass::kSmall, 8192);
  whole->points.push_back({one, 5});
  free(*whole);
  const MemoryBlock* const first = allocate(SizeClass::kSmall, 4096);
  ASSERT_NE(first->after, nullptr);
  ASSERT_EQ(first->after->points.size(), 1u);
  EXPECT_EQ(first->after->points[0].position, 5u);
}

TEST_F(BlockStoreTest, StaysSoundUnderRandomUse) {
  std::mt19937_64 random(11);
  for (uint64_t i = 0; i < 8; ++i) add(i * 64 * kMiB, 2 * kMiB, SizeClass::kSmall);
  for (uint64_t i = 8; i < 12; ++i) add(i * 64 * kMiB, 32 * kMiB, SizeClass::kMedium);
  std::vector<MemoryBlock*> used;
  for (int round = 0; round < 4000; ++round) {
    if (used.empty() || random() % 2 == 0) {
      const bool small = random() % 2 == 0;
      const uint64_t size = small ? random() % (64 << 10) + 1 : kMiB + random() % (4 * kMiB);
      MemoryBlock* const block = allocate(small ? SizeClass::kSmall : SizeClass::kMedium, size);
      if (block == nullptr) continue;
      EXPECT_GE(block->size, size);
      used.push_back(block);
    } else {
      std::swap(used[random() % used.size()], used.back());
      free(*used.back());
      used.pop_back();
    }
    if (round % 100 == 0) expect_sound();
  }
  for (MemoryBlock* block : used) free(*block);
  store_.join_recent();
  EXPECT_EQ(pieces().size(), 12u) << "one block a segment";
  expect_sound();
}

// ---- the host's memory runs out -----------------------------------------------------

TEST_F(BlockStoreTest, ASegmentThatHasNoRoomChangesNothing) {
  add(0, 2 * kMiB, SizeClass::kSmall);
  MemoryBlock* const used = allocate(SizeClass::kSmall, 4096);
  const std::vector<Piece> before = pieces();
  int failures = 0;
  while (true) {
    t_until_failure = failures;
    bool added = true;
    try {
      add(64 * kMiB, 2 * kMiB, SizeClass::kSmall);
    } catch (const std::bad_alloc&) {
      added = false;
    }
    t_until_failure = -1;
    if (added) break;
    ++failures;
    EXPECT_EQ(pieces(), before);
    EXPECT_EQ(store_.reserved(), 2 * kMiB);
    expect_sound();
  }
  EXPECT_GT(failures, 0);
  EXPECT_EQ(store_.reserved(), 4 * kMiB);
  EXPECT_EQ(store_.find(address(0)), used);
  expect_sound();
}

TEST_F(BlockStoreTest, ARestWithoutRoomForItsPointsWaitsForAll) {
  const Ref<Timeline> one = make_ref<Timeline>(no_stream(), 1);
  add(0, 8192, SizeClass::kSmall);
  MemoryBlock* const whole = allocate(SizeClass::kSmall, 8192);
  whole->points.push_back({one, 5});
  free(*whole);
  store_.prepare_split();
  t_until_failure = 0;
  store_.take(*whole, 4096);
  t_until_failure = -1;
  whole->requested = 4096;
  ASSERT_NE(whole->after, nullptr);
  EXPECT_TRUE(whole->after->points.empty());
  EXPECT_TRUE(whole->after->waits_for_all);
  expect_sound();
}

}  // namespace
}  // namespace keel
