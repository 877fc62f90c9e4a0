// SPDX-License-Identifier: Apache-2.0
#include "core/mapped_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace keel {
namespace {

TEST(MappedMemoryTest, OrdinaryMemoryIsMapped) {
  const std::vector<char> heap(100'000);
  char local = 0;
  EXPECT_TRUE(is_mapped(heap.data(), heap.size()));
  EXPECT_TRUE(is_mapped(heap.data() + 4095, 2));
  EXPECT_TRUE(is_mapped(&local, 1));
  EXPECT_TRUE(is_mapped(nullptr, 0));
}

TEST(MappedMemoryTest, HolesAndInaccessiblePagesAreNot) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* const mapped =
      mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const pages = static_cast<char*>(mapped);
  EXPECT_TRUE(is_mapped(pages, 4 * page));
  ASSERT_EQ(munmap(pages + 2 * page, page), 0);
  EXPECT_TRUE(is_mapped(pages, 2 * page));
  EXPECT_TRUE(is_mapped(pages + 3 * page, page));
  EXPECT_FALSE(is_mapped(pages, 4 * page)) << "a hole in the middle";
  EXPECT_FALSE(is_mapped(pages + 2 * page, 1));
  EXPECT_FALSE(is_mapped(pages + 2 * page - 1, 2));
  EXPECT_FALSE(is_mapped(nullptr, 1));
  EXPECT_FALSE(is_mapped(reinterpret_cast<void*>(7), 1));
  EXPECT_FALSE(is_mapped(reinterpret_cast<void*>(UINTPTR_MAX - page), 1)) << "of the kernel";
  // The last word of a page, and each of two pages of which one cannot be read.
  EXPECT_TRUE(is_mapped(pages + page - 1, 1));
  EXPECT_TRUE(is_mapped(pages + page - 1, 2));
  EXPECT_FALSE(is_mapped(pages, UINT64_MAX)) << "past the end of the address space";
  ASSERT_EQ(mprotect(pages, page, PROT_NONE), 0);
  EXPECT_FALSE(is_mapped(pages, page));
  EXPECT_FALSE(is_mapped(pages + page - 1, 2));
  EXPECT_TRUE(is_mapped(pages + page, 1));
  munmap(pages, 2 * page);
  munmap(pages + 3 * page, page);
}

}  // namespace
}  // namespace keel
