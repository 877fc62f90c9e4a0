// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "backends/cpu/testing/page_sizes.h"

namespace keel::cpu {
namespace {

// Memory of this process at a multiple of kHugePage.
class HugePagesTest : public testing::Test {
 protected:
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kBytes = 4 * kHugePage;

  void SetUp() override {
    void* const room = mmap(nullptr, kBytes + kHugePage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(room, MAP_FAILED);
    room_ = static_cast<char*>(room);
    memory_ = room_ + -reinterpret_cast<uintptr_t>(room_) % kHugePage;
  }
  void TearDown() override { munmap(room_, kBytes + kHugePage); }

  char* room_ = nullptr;
  char* memory_ = nullptr;
};

TEST_F(HugePagesTest, AreThoseThatLieWholeInTheRangeWithWhatTheyHeld) {
  std::memset(memory_, 7, kBytes);
  commit_huge_pages(memory_ + 100, kBytes - 200);  // the second and third of four pages
  const uint64_t huge = huge_bytes_at(memory_);
  for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(memory_[i], 7) << i;
  if (!can_be_huge(memory_)) GTEST_SKIP() << "the kernel gives no huge pages";
  EXPECT_EQ(huge, 2 * kHugePage);
}

TEST_F(HugePagesTest, AreOfMemoryThatWasNeverWrittenToo) {
  commit_huge_pages(memory_, kBytes);
  const uint64_t huge = huge_bytes_at(memory_);
  std::memset(memory_, 7, kPage);
  if (!can_be_huge(memory_)) GTEST_SKIP() << "the kernel gives no huge pages";
  EXPECT_EQ(huge, kBytes);
}

TEST_F(HugePagesTest, NothingIsTouchedBesideOrWhereThereIsNone) {
  errno = 1234;
  commit_huge_pages(memory_ + 1, kHugePage);
  commit_huge_pages(memory_, kHugePage - 1);
  commit_huge_pages(memory_ + 1, 0);
  commit_huge_pages(memory_, kMostHuge + 1);
  EXPECT_EQ(huge_bytes_at(memory_), 0u);
  // The kernel refuses unmapped memory, and read-only memory keeps its pages.
  commit_huge_pages(reinterpret_cast<void*>(kHugePage), 2 * kHugePage);
  ASSERT_EQ(mprotect(memory_, kBytes, PROT_NONE), 0);
  commit_huge_pages(memory_, kBytes);
  EXPECT_EQ(errno, 1234);
}

}  // namespace
}  // namespace keel::cpu
