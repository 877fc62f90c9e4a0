// SPDX-License-Identifier: Apache-2.0
#include "core/handle_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace keel {
namespace {

struct Thing : RefCounted {
  explicit Thing(int number) : value(number) { ++alive; }
  ~Thing() override { --alive; }
  const int value;
  static inline std::atomic<int> alive{0};
};
using Table = HandleTable<Thing, HandleKind::kStream>;

TEST(HandleTableTest, StaleAndForeignHandlesAreNotFound) {
  Table table;
  HandleTable<Thing, HandleKind::kEvent> other;
  const uint64_t id = table.insert(make_ref<Thing>(1));
  EXPECT_EQ(table.find(id)->value, 1);
  EXPECT_NE(id << 8 >> 40, 0u) << "handle 0 lies in slot 0";
  EXPECT_FALSE(other.find(id));
  EXPECT_FALSE(table.find(0));
  EXPECT_FALSE(table.find(id + 1)) << "another generation";
  EXPECT_FALSE(table.find(id | uint64_t{0xffffff} << 32)) << "a slot that never was";
  EXPECT_TRUE(table.remove(id));
  EXPECT_FALSE(table.remove(id));
  EXPECT_FALSE(table.find(id));
  const uint64_t again = table.insert(make_ref<Thing>(2));
  EXPECT_NE(again, id);
  EXPECT_FALSE(table.find(id));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.live_handles(), std::vector<uint64_t>{again});
  table.remove(again);
  EXPECT_EQ(Thing::alive, 0);
}

TEST(HandleTableTest, ReservedHandleIsLiveOnceFilled) {
  Table table;
  const uint64_t id = table.reserve();
  const uint64_t other = table.insert(make_ref<Thing>(1));
  EXPECT_NE(id, 0u);
  EXPECT_NE(id, other);
  EXPECT_FALSE(table.find(id));
  EXPECT_FALSE(table.remove(id));
  EXPECT_EQ(table.live_handles(), std::vector<uint64_t>{other});
  table.fill(id, make_ref<Thing>(2));
  EXPECT_EQ(table.find(id)->value, 2);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_TRUE(table.remove(id));
  const uint64_t given_up = table.reserve();
  table.give_up(given_up);
  EXPECT_FALSE(table.find(given_up));
  const uint64_t again = table.insert(make_ref<Thing>(3));
  EXPECT_EQ(again >> 32, given_up >> 32) << "the slot is free again";
  EXPECT_NE(again, given_up);
}

TEST(HandleTableTest, AnEmptyTableHasNothing) {
  Table table;
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, UINT64_MAX}) {
    EXPECT_FALSE(table.find(id)) << id;
    EXPECT_FALSE(table.remove(id)) << id;
  }
  const uint64_t id = table.insert(make_ref<Thing>(3));
  EXPECT_FALSE(table.find(0));
  EXPECT_FALSE(table.remove(0));
  EXPECT_FALSE(table.find(UINT64_MAX));
  EXPECT_FALSE(table.remove(UINT64_MAX));
  EXPECT_FALSE(table.find(id & ~(uint64_t{0xffffff} << 32))) << "slot 0";
  EXPECT_TRUE(table.remove(id));
}

TEST(HandleTableTest, AFoundObjectOutlivesItsHandleUntilTheSectionEnds) {
  Table table;
  const uint64_t id = table.insert(make_ref<Thing>(7));
  {
    EpochSection section;
    const Thing* found = table.peek(id);
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(table.remove(id));
    EXPECT_EQ(table.peek(id), nullptr);
    reclaim_retired();
    EXPECT_EQ(Thing::alive, 1);
    EXPECT_EQ(found->value, 7);
    const uint64_t other = table.insert(make_ref<Thing>(8));
    EXPECT_NE(other << 8 >> 40, id << 8 >> 40) << "the slot was used again too early";
    table.remove(other);
  }
  reclaim_retired();
  EXPECT_EQ(Thing::alive, 0);
}

TEST(HandleTableTest, ALazyRemovalIsReclaimedByLaterOnes) {
  Table table;
  for (int i = 0; i < 1000; ++i) {
    table.remove(table.insert(make_ref<Thing>(i)), /*lazily=*/true);
    ASSERT_LE(Thing::alive, 64);
  }
  reclaim_retired();
  EXPECT_EQ(Thing::alive, 0);
}

// Slots come and go under readers with stale handles: a live handle is always found.
TEST(HandleTableTest, StaleLookUpsHarmNoLiveHandle) {
  Table table;
  std::atomic<uint64_t> stale{table.insert(make_ref<Thing>(0))};
  table.remove(stale);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        EXPECT_FALSE(table.find(stale));
        EXPECT_FALSE(table.find(0)) << "found before it had a handle";
      }
    });
  }
  for (int i = 1; i <= 50'000; ++i) {
    const uint64_t id = table.insert(make_ref<Thing>(i));
    const Ref<Thing> found = table.find(id);
    ASSERT_TRUE(found) << "lost after " << i;
    ASSERT_EQ(found->value, i);
    ASSERT_TRUE(table.remove(id));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  reclaim_retired();
  EXPECT_EQ(Thing::alive, 0);
}

// Threads follow handles by plain pointers while others remove and replace the objects.
TEST(HandleTableTest, ObjectsAreNotFreedUnderTheirReaders) {
  Table table;
  std::array<std::atomic<uint64_t>, 4> handles;
  for (auto& handle : handles) handle = table.insert(make_ref<Thing>(1));
  std::atomic<bool> stop{false};
  std::atomic<int64_t> found_count{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      int64_t found = 0;
      for (size_t n = 0; !stop || found == 0; ++n) {
        EpochSection section;
        const Thing* thing = table.peek(handles[n % handles.size()].load());
        if (thing == nullptr) continue;
        EpochSection nested;
        ASSERT_EQ(thing->value, 1);
        ++found;
      }
      found_count += found;
    });
  }
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&, i] {
      for (int n = 0; n < 10'000; ++n) {
        const uint64_t id = table.insert(make_ref<Thing>(1));
        const uint64_t old = handles[i * 2 + n % 2].exchange(id);
        ASSERT_TRUE(table.remove(old, /*lazily=*/n % 3 != 0));
      }
    });
  }
  for (auto& writer : writers) writer.join();
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_GT(found_count, 0);
  for (auto& handle : handles) table.remove(handle);
  reclaim_retired();
  EXPECT_EQ(Thing::alive, 0);
}

}  // namespace
}  // namespace keel
