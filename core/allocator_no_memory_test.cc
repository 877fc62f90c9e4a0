// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory inside the allocator: whichever host allocation fails, no block is
// lost and the allocator keeps working.
#include <vector>

#include "core/testing/host_memory.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class AllocatorNoMemoryTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load("fake", {{"devices", "1"}}).at(0);
    stream_ = new_stream(device_);
  }
  // Returns the result of |call| while its host allocation number |index|, counted from 0, fails.
  template <typename Call>
  keel_status starve(int index, const Call& call, bool* out_failed) {
    t_until_failure = index;
    const keel_status status = call();
    *out_failed = t_until_failure < 0;
    t_until_failure = -1;
    return status;
  }
  keel_memory_stats stats() {
    auto stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    EXPECT_KEEL_OK(keel_memory_stats_get(device_, &stats));
    return stats;
  }
  keel_device device_ = {};
  keel_stream stream_ = {};
};

TEST_F(AllocatorNoMemoryTest, AllocationsFailClean) {
  for (const uint64_t size : {uint64_t{512}, uint64_t{3} << 20}) {
    bool failed = true;
    int failures = 0;
    for (int index = 0; failed; ++index) {
      ASSERT_LT(index, 200);
      void* memory = nullptr;
      const keel_status status = starve(
          index, [&] { return keel_alloc_on_stream(stream_, size, &memory); }, &failed);
      if (status == KEEL_OK) {
        EXPECT_EQ(stats().live_blocks, 1u);
        EXPECT_KEEL_OK(keel_free(device_, memory));
      } else {
        EXPECT_EQ(status, KEEL_OUT_OF_MEMORY);
        EXPECT_EQ(memory, nullptr);
        ++failures;
      }
      EXPECT_EQ(stats().live_blocks, 0u);
      EXPECT_EQ(stats().allocated, 0u);
      // Forces the next iteration to create the segment and the blocks anew.
      ASSERT_KEEL_OK(keel_memory_trim(device_));
      EXPECT_EQ(stats().reserved, 0u);
    }
    EXPECT_GT(failures, 0) << "the test did not reach the allocator's own memory";
  }
}

TEST_F(AllocatorNoMemoryTest, FreeingAlwaysWorks) {
  for (int index = 0; index < 4; ++index) {
    std::vector<keel_stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(new_stream(device_));
    void* memory = alloc(device_, 512);
    {
      const FakePause pause;
      for (const keel_stream stream : streams) ASSERT_KEEL_OK(fill(stream, memory, 1, 1));
      bool failed = false;
      EXPECT_KEEL_OK(starve(
          index, [&] { return keel_free(device_, memory); }, &failed));
      // The allocator may lack the list of streams to wait for, but must know that a wait is due.
      EXPECT_NE(alloc(device_, 512), memory);
    }
    for (const keel_stream stream : streams) {
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      ASSERT_KEEL_OK(keel_stream_destroy(stream));
    }
    EXPECT_EQ(alloc(device_, 512), memory) << index;
  }
}

TEST_F(AllocatorNoMemoryTest, TrimmingFailsClean) {
  bool failed = true;
  for (int index = 0; failed; ++index) {
    ASSERT_LT(index, 200);
    void* large = alloc(device_, 3 << 20);
    void* small = alloc(device_, 512);
    ASSERT_KEEL_OK(keel_free(device_, large));
    const keel_status status = starve(
        index, [&] { return keel_memory_trim(device_); }, &failed);
    EXPECT_TRUE(status == KEEL_OK || status == KEEL_OUT_OF_MEMORY) << status;
    ASSERT_KEEL_OK(keel_free(device_, small));
    ASSERT_KEEL_OK(keel_memory_trim(device_));
    EXPECT_EQ(stats().reserved, 0u) << index;
  }
}

}  // namespace
}  // namespace keel::testing
