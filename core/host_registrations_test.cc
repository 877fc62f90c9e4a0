// SPDX-License-Identifier: Apache-2.0
#include "core/host_registrations.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace keel {
namespace {

char g_memory[4096];

// A plugin that pins no byte twice, as CUDA's driver.
class Plugin {
 public:
  Status add(HostRegistrations& registrations, int begin, uint64_t size, bool same_address = true) {
    return registrations.add(
        g_memory + begin, size,
        [&](void* pointer, uint64_t bytes, void** out_device_pointer) {
          const auto at = static_cast<int>(static_cast<char*>(pointer) - g_memory);
          if (at == refused) return failure(KEEL_UNAVAILABLE, "no more memory can be pinned");
          for (const Range& range : pinned) {
            const auto end = at + static_cast<int>(bytes);
            EXPECT_TRUE(end <= range.begin || at >= range.end) << "pinned twice at " << at;
          }
          pinned.push_back({at, at + static_cast<int>(bytes)});
          *out_device_pointer = same_address ? pointer : nullptr;
          return Status();
        },
        [&](void* pointer) { return unpin(pointer); });
  }
  Status remove(HostRegistrations& registrations, int begin) {
    return registrations.remove(g_memory + begin, [&](void* pointer) { return unpin(pointer); });
  }

  struct Range {
    int begin;
    int end;
  };
  std::vector<Range> pinned;
  int refused = -1;  // where pinning fails

 private:
  Status unpin(void* pointer) {
    const size_t erased = std::erase_if(
        pinned, [&](const Range& range) { return g_memory + range.begin == pointer; });
    EXPECT_EQ(erased, 1u) << "unpinned, but not pinned";
    return {};
  }
};

class HostRegistrationsTest : public ::testing::Test {
 protected:
  Status add(int begin, uint64_t size, bool same_address = true) {
    return plugin_.add(registrations_, begin, size, same_address);
  }
  Status remove(int begin) { return plugin_.remove(registrations_, begin); }
  // The second time uses the cached ranges.
  bool has(int begin, uint64_t size) {
    const bool first = registrations_.has_same_address(g_memory + begin, size);
    EXPECT_EQ(registrations_.has_same_address(g_memory + begin, size), first);
    return first;
  }

  Plugin plugin_;
  HostRegistrations registrations_;
};

TEST_F(HostRegistrationsTest, KnowsWhatLiesInARange) {
  EXPECT_FALSE(has(0, 1));
  ASSERT_TRUE(add(64, 128).ok());
  ASSERT_TRUE(add(1024, 128, /*same_address=*/false).ok());
  EXPECT_TRUE(has(64, 128));
  EXPECT_TRUE(has(191, 1));
  EXPECT_FALSE(has(63, 1));
  EXPECT_FALSE(has(192, 1));
  EXPECT_FALSE(has(64, 129));
  EXPECT_FALSE(has(65, UINT64_MAX));
  EXPECT_FALSE(has(1024, 1));
}

TEST_F(HostRegistrationsTest, ForgetsWhatIsTakenBack) {
  for (const int at : {0, 512, 1024}) {
    ASSERT_TRUE(add(at, 256).ok());
    EXPECT_TRUE(has(at, 256));
  }
  ASSERT_TRUE(remove(512).ok());
  EXPECT_TRUE(has(0, 256));
  EXPECT_FALSE(has(512, 1));
  ASSERT_TRUE(add(512, 16).ok());
  EXPECT_TRUE(has(512, 16));
  EXPECT_FALSE(has(512, 17));
  EXPECT_TRUE(has(1024, 256));
}

TEST_F(HostRegistrationsTest, NestedRangesEndWithTheLastThatCoversAByte) {
  ASSERT_TRUE(add(0, 1024).ok());
  ASSERT_TRUE(add(256, 64).ok());
  EXPECT_EQ(plugin_.pinned.size(), 1u);
  ASSERT_TRUE(remove(256).ok());
  EXPECT_TRUE(has(0, 1024));
  ASSERT_TRUE(add(256, 64).ok());
  ASSERT_TRUE(remove(0).ok());
  EXPECT_TRUE(has(256, 64));
  EXPECT_FALSE(has(255, 1));
  EXPECT_FALSE(has(320, 1));
  // Memory pinned by one call of the plugin stays pinned until its last user has gone.
  EXPECT_EQ(plugin_.pinned.size(), 1u);
  ASSERT_TRUE(add(128, 512).ok());
  EXPECT_TRUE(has(128, 512));
  ASSERT_TRUE(remove(256).ok());
  EXPECT_TRUE(has(128, 512));
  ASSERT_TRUE(remove(128).ok());
  EXPECT_TRUE(plugin_.pinned.empty());
  EXPECT_FALSE(has(256, 1));
}

TEST_F(HostRegistrationsTest, RepeatedRangesAreCounted) {
  ASSERT_TRUE(add(0, 1024).ok());
  ASSERT_TRUE(add(0, 64).ok());
  ASSERT_TRUE(add(0, 64).ok());
  ASSERT_TRUE(remove(0).ok());
  ASSERT_TRUE(remove(0).ok());
  EXPECT_TRUE(has(0, 1024)) << "the latest goes first";
  ASSERT_TRUE(remove(0).ok());
  EXPECT_FALSE(has(0, 1));
  EXPECT_TRUE(plugin_.pinned.empty());
  const Status none = remove(0);
  EXPECT_EQ(none.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(none.text()).find("no registration begins at"), std::string::npos);
}

TEST_F(HostRegistrationsTest, AdjacentAndOverlappingRangesAreOne) {
  ASSERT_TRUE(add(0, 512).ok());
  ASSERT_TRUE(add(512, 512).ok());
  EXPECT_TRUE(has(500, 24));
  EXPECT_TRUE(has(0, 1024));
  EXPECT_FALSE(has(0, 1025));
  ASSERT_TRUE(add(768, 1024).ok());
  EXPECT_EQ(plugin_.pinned.size(), 3u);
  EXPECT_TRUE(has(0, 1792));
  ASSERT_TRUE(remove(512).ok());
  EXPECT_FALSE(has(500, 24));
  EXPECT_FALSE(has(512, 256));
  EXPECT_TRUE(has(768, 1024));
  ASSERT_TRUE(add(1792, 8, /*same_address=*/false).ok());
  EXPECT_FALSE(has(1784, 16)) << "half of the range has another address";
}

TEST_F(HostRegistrationsTest, MemoryInUseStaysRegistered) {
  ASSERT_TRUE(add(0, 1024).ok());
  ASSERT_TRUE(add(256, 256).ok());
  std::vector<std::pair<uint64_t, uint64_t>> asked;
  const auto in_use = [&](uintptr_t begin, uintptr_t end) {
    const auto base = reinterpret_cast<uintptr_t>(g_memory);
    asked.emplace_back(begin - base, end - base);
    return failure(KEEL_FAILED_PRECONDITION, "in use");
  };
  const HostRegistrations::Unpin unpin = [](void*) { return Status(); };
  EXPECT_TRUE(registrations_.remove(g_memory + 256, unpin, in_use).ok()) << "still covered";
  EXPECT_TRUE(asked.empty());
  ASSERT_TRUE(add(512, 256).ok());
  EXPECT_EQ(registrations_.remove(g_memory, unpin, in_use).code(), KEEL_FAILED_PRECONDITION);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].first, 0u);
  EXPECT_TRUE(has(0, 1024));
  EXPECT_TRUE(remove(0).ok());
}

TEST_F(HostRegistrationsTest, RefusedPinLeavesNothing) {
  ASSERT_TRUE(add(256, 256).ok());
  plugin_.refused = 512;
  EXPECT_EQ(add(0, 1024).code(), KEEL_UNAVAILABLE);
  EXPECT_EQ(plugin_.pinned.size(), 1u);
  EXPECT_FALSE(has(0, 1));
  EXPECT_TRUE(has(256, 256));
  EXPECT_EQ(remove(0).code(), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(add(1, UINT64_MAX).code(), KEEL_INVALID_ARGUMENT);
}

// Ranges of another device, and of a device at the address of a former one.
TEST(HostRegistrationsOfDevicesTest, CachedRangesAreTheirOwn) {
  Plugin plugin;
  auto registrations = std::make_unique<HostRegistrations>();
  const HostRegistrations others;
  ASSERT_TRUE(plugin.add(*registrations, 0, 256).ok());
  EXPECT_TRUE(registrations->has_same_address(g_memory, 256));
  EXPECT_FALSE(others.has_same_address(g_memory, 256));
  registrations.reset();
  plugin.pinned.clear();
  registrations = std::make_unique<HostRegistrations>();
  EXPECT_FALSE(registrations->has_same_address(g_memory, 256));
  ASSERT_TRUE(plugin.add(*registrations, 512, 256).ok());
  EXPECT_FALSE(registrations->has_same_address(g_memory, 256));
}

}  // namespace
}  // namespace keel
