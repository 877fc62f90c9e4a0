// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/runtime/range_allocator.h"
#include "backends/cpu/testing/page_sizes.h"

namespace keel::cpu {
namespace {

TEST(RangeAllocator, TakesTheFirstHoleThatFits) {
  RangeAllocator ranges(1000);
  EXPECT_EQ(ranges.allocate(100, 1), 0u);
  EXPECT_EQ(ranges.allocate(200, 1), 100u);
  EXPECT_EQ(ranges.allocate(100, 1), 300u);
  EXPECT_EQ(ranges.release(100), 200u);
  EXPECT_EQ(ranges.allocate(201, 1), 400u);
  EXPECT_EQ(ranges.allocate(50, 1), 100u);
  EXPECT_EQ(ranges.allocate(150, 1), 150u);
}

TEST(RangeAllocator, MergesNeighboursInEveryOrder) {
  for (const auto& order : std::vector<std::vector<uint64_t>>{
           {0, 10, 20}, {0, 20, 10}, {10, 0, 20}, {10, 20, 0}, {20, 0, 10}, {20, 10, 0}}) {
    RangeAllocator ranges(40);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(ranges.allocate(10, 1));
    for (const uint64_t offset : order) EXPECT_EQ(ranges.release(offset), 10u);
    EXPECT_EQ(ranges.largest_hole(), 30u);
    EXPECT_EQ(ranges.release(30), 10u);
    EXPECT_EQ(ranges.largest_hole(), 40u);
    EXPECT_TRUE(ranges.empty());
  }
}

TEST(RangeAllocator, AlignsAndUsesTheGap) {
  RangeAllocator ranges(256);
  EXPECT_EQ(ranges.allocate(1, 1), 0u);
  EXPECT_EQ(ranges.allocate(64, 64), 64u);
  EXPECT_EQ(ranges.allocate(63, 1), 1u);
  EXPECT_EQ(ranges.allocate(129, 1), std::nullopt);
  EXPECT_EQ(ranges.allocate(128, 128), 128u);
  EXPECT_EQ(ranges.allocate(1, 1), std::nullopt);
}

TEST(RangeAllocator, RefusesWhatItDidNotGive) {
  RangeAllocator ranges(64);
  EXPECT_EQ(ranges.allocate(32, 1), 0u);
  EXPECT_EQ(ranges.release(16), 0u);
  EXPECT_EQ(ranges.release(0), 32u);
  EXPECT_EQ(ranges.release(0), 0u);
}

class ArenaPoolTest : public ::testing::Test {
 protected:
  static bool guarded() {
    const char* const guard = std::getenv("KEEL_CPU_GUARD");
    return guard != nullptr && std::string_view(guard) == "1";
  }
  AddressSpace space_{guarded()};
  MemoryBudget budget_{uint64_t{256} << 20};
  ArenaPool pool_{space_, budget_};
};

TEST_F(ArenaPoolTest, AlignsAndReleases) {
  std::vector<void*> pointers;
  for (const uint64_t size : {1, 63, 64, 65, 4095, 4096, 4097, 100000}) {
    void* const pointer = pool_.allocate(size);
    ASSERT_NE(pointer, nullptr);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    EXPECT_EQ(address % (size < 4033 ? 64 : 4096), 0u) << size;
    std::memset(space_.to_host(static_cast<char*>(pointer)), 1, size);
    pointers.push_back(pointer);
  }
  for (void* const pointer : pointers) EXPECT_TRUE(pool_.release(pointer));
  EXPECT_EQ(budget_.left(), budget_.limit());
  EXPECT_FALSE(pool_.release(pointers[0])) << "twice";
  EXPECT_FALSE(pool_.release(&pointers));
}

TEST_F(ArenaPoolTest, ReusesTheFirstHole) {
  void* const first = pool_.allocate(4096);
  void* const second = pool_.allocate(4096);
  EXPECT_TRUE(pool_.release(first));
  EXPECT_EQ(pool_.allocate(100), first);
  EXPECT_TRUE(pool_.release(first));
  EXPECT_TRUE(pool_.release(second));
  EXPECT_EQ(pool_.allocate(8192), first);
  EXPECT_TRUE(pool_.release(first));
}

TEST_F(ArenaPoolTest, StopsAtTheBudgetAndGoesOnAfterARelease) {
  std::vector<void*> pointers;
  while (void* const pointer = pool_.allocate(uint64_t{25} << 20)) pointers.push_back(pointer);
  EXPECT_EQ(pointers.size(), 10u);
  EXPECT_EQ(pool_.allocate(UINT64_MAX), nullptr);
  EXPECT_TRUE(pool_.release(pointers.back()));
  EXPECT_EQ(pool_.allocate(uint64_t{25} << 20), pointers.back());
  for (void* const pointer : pointers) EXPECT_TRUE(pool_.release(pointer));
}

TEST_F(ArenaPoolTest, LargeBlocksAreOfHugePagesWhereTheKernelHasThem) {
  if (guarded()) GTEST_SKIP() << "the window does not begin at a huge page";
  constexpr uint64_t kBytes = uint64_t{5} << 20;
  void* const small = pool_.allocate(64);
  auto* const large = static_cast<char*>(pool_.allocate(kBytes));
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % kHugePage, 0u);
  const uint64_t huge = huge_bytes_at(large);
  EXPECT_EQ(large[kBytes - 1], 0);
  EXPECT_TRUE(pool_.release(large));
  // can_be_huge() requests huge pages again, for the same block.
  ASSERT_EQ(pool_.allocate(kBytes), large);
  const bool is_able = can_be_huge(large);
  EXPECT_TRUE(pool_.release(large));
  EXPECT_TRUE(pool_.release(small));
  if (!is_able) GTEST_SKIP() << "the kernel gives shared memory no huge pages";
  EXPECT_EQ(huge, uint64_t{4} << 20);
}

TEST_F(ArenaPoolTest, LocatesInASealedFile) {
  void* const first = pool_.allocate(64);
  void* const pointer = pool_.allocate(64);
  ArenaPool::Location location;
  ASSERT_TRUE(pool_.locate(pointer, 64, &location));
  EXPECT_EQ(location.arena_size, ArenaPool::kArenaBytes);
  EXPECT_EQ(location.offset, 64u);
  const int seals = fcntl(location.fd, F_GET_SEALS);
  EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW), F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_FALSE(pool_.locate(pointer, ArenaPool::kArenaBytes, &location));
  EXPECT_FALSE(pool_.locate(&location, 1, &location));
  EXPECT_TRUE(pool_.release(first));
  EXPECT_TRUE(pool_.release(pointer));
}

}  // namespace
}  // namespace keel::cpu
