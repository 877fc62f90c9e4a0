// SPDX-License-Identifier: Apache-2.0
// KEEL_ALLOC=exact: each allocation has exactly the requested size, and freed memory returns to the
// plugin.
#include <cstdlib>
#include <string>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class PassthroughAllocatorTest : public KeelTest,
                                 public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    setenv("KEEL_ALLOC", "exact", 1);
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
  }
  void TearDown() override {
    KeelTest::TearDown();
    unsetenv("KEEL_ALLOC");
  }
  keel_memory_stats stats() {
    auto stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    EXPECT_KEEL_OK(keel_memory_stats_get(device_, &stats));
    return stats;
  }
  void* alloc_on(keel_stream stream, uint64_t size) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc_on_stream(stream, size, &pointer));
    return pointer;
  }

  keel_device device_ = {};
};

TEST_P(PassthroughAllocatorTest, OfEachSizeWhatWasAskedFor) {
  uint64_t reserved = 0;
  uint64_t blocks = 0;
  for (const uint64_t size : {uint64_t{1}, uint64_t{1000}, kMiB + 1, 3 * kMiB, 65 * kMiB + 3}) {
    void* const memory = alloc(device_, size);
    reserved += size;
    ++blocks;
    keel_memory_stats now = stats();
    EXPECT_EQ(now.reserved, reserved);
    EXPECT_EQ(now.allocated, reserved);
    EXPECT_EQ(now.requested, reserved);
    EXPECT_EQ(now.native_allocs, blocks);
    auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    char* const last = static_cast<char*>(memory) + size - 1;
    ASSERT_KEEL_OK(keel_memory_find(device_, last, &info));
    EXPECT_EQ(info.base, memory);
    EXPECT_EQ(info.size, size);
    EXPECT_EQ(keel_memory_find(device_, last + 1, &info), KEEL_NOT_FOUND);
  }
}

TEST_P(PassthroughAllocatorTest, WhatIsFreedGoesBackAtOnce) {
  for (uint64_t round = 1; round <= 3; ++round) {
    void* const memory = alloc_filled(device_, {1, 2, 3});
    EXPECT_EQ(read(device_, memory, 3), (std::vector<uint32_t>{1, 2, 3}));
    ASSERT_KEEL_OK(keel_free(device_, memory));
    const keel_memory_stats now = stats();
    EXPECT_EQ(now.reserved, 0u);
    EXPECT_EQ(now.native_allocs, round);
    EXPECT_EQ(now.native_frees, round);
    EXPECT_EQ(now.cache_hits, 0u);
    EXPECT_EQ(keel_free(device_, memory), KEEL_INVALID_ARGUMENT);
  }
}

TEST_P(PassthroughAllocatorTest, OfStreamsToo) {
  const keel_stream stream = new_stream(device_);
  void* const memory = alloc_on(stream, 1000);
  EXPECT_EQ(stats().reserved, 1000u);
  ASSERT_KEEL_OK(fill(stream, memory, 7, 250));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 250), std::vector<uint32_t>(250, 7));
  ASSERT_KEEL_OK(keel_free_on_stream(stream, memory));
  EXPECT_EQ(stats().reserved, 0u);
}

// Without KEEL_ALLOC=exact, the stream's own next request would reuse the memory.
TEST_P(PassthroughAllocatorTest, WhatIsInUseGoesBackOnceItIsNot) {
  const keel_stream stream = new_stream(device_);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  void* const memory = alloc_on(stream, 1000);
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  ASSERT_KEEL_OK(fill(stream, memory, 7, 250));
  ASSERT_KEEL_OK(keel_free_on_stream(stream, memory));
  EXPECT_EQ(stats().reserved, 1000u) << "the fill is still to come";
  void* const other = alloc_on(stream, 1000);
  EXPECT_NE(other, memory);
  EXPECT_EQ(stats().reserved, 2000u);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  alloc(device_, 8);
  EXPECT_EQ(stats().reserved, 1008u);
  EXPECT_EQ(stats().cache_hits, 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, PassthroughAllocatorTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

TEST(AllocSetting, OneThatIsNoneIsRefused) {
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "";
  setenv("KEEL_ALLOC", "tight", 1);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "KEEL_ALLOC=tight is neither cached nor exact",
               keel_init(&options));
  for (const char* const good : {"", "cached", "exact"}) {
    setenv("KEEL_ALLOC", good, 1);
    ASSERT_KEEL_OK(keel_init(&options)) << good;
    ASSERT_KEEL_OK(keel_shutdown());
  }
  unsetenv("KEEL_ALLOC");
}

}  // namespace
}  // namespace keel::testing
