#include "core/handle_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

// Slots come and go under readers with stale handles: a live one is always found.
TEST(HandleTableTest, StaleLookUpsHarmNoLiveHandle) {
  Table table;
  std::atomic<uint64_t> stale{table.insert(make_ref<Thing>(0))};
  table.remove(stale);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) EXPECT_FALSE(table.find(stale));
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
  EXPECT_EQ(Thing::alive, 0);
}

}  // namespace
}  // namespace keel
