// SPDX-License-Identifier: Apache-2.0
#include "core/epoch.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace keel {
namespace {

struct Node : Retired {
  explicit Node(bool* out_reclaimed) : reclaimed(out_reclaimed) {
    reclaim = [](Retired* self) noexcept { *static_cast<Node*>(self)->reclaimed = true; };
  }
  bool* reclaimed;
};

TEST(EpochTest, ASectionHoldsBackWhatIsRetiredInIt) {
  bool early = false;
  bool late = false;
  Node first(&early);
  Node second(&late);
  std::optional<EpochSection> section(std::in_place);
  retire(&first);
  reclaim_retired();
  EXPECT_FALSE(early);
  EXPECT_EQ(retired_count(), 1u);
  section.reset();
  section.emplace();  // begins after |first| was retired
  retire(&second);
  reclaim_retired();
  EXPECT_TRUE(early);
  EXPECT_FALSE(late);
  { EpochSection nested; }
  reclaim_retired();
  EXPECT_FALSE(late) << "the end of a nested section ended the outer one";
  section.reset();
  reclaim_retired();
  EXPECT_TRUE(late);
  EXPECT_EQ(retired_count(), 0u);
}

TEST(EpochTest, AShortSectionHoldsBackToo) {
  std::thread([] {
    EXPECT_EQ(ShortEpochSection::who(), nullptr) << "its first one is a long one";
    { EpochSection first; }
    epoch::EpochRecord* who = ShortEpochSection::who();
    if (who == nullptr) GTEST_SKIP() << "the kernel does not fence";
    bool reclaimed = false;
    Node node(&reclaimed);
    {
      ShortEpochSection section(*who);
      EXPECT_EQ(ShortEpochSection::who(), nullptr) << "none within another";
      retire(&node);
      { EpochSection nested; }
      reclaim_retired();
      EXPECT_FALSE(reclaimed);
    }
    reclaim_retired();
    EXPECT_TRUE(reclaimed);
    EXPECT_EQ(ShortEpochSection::who(), who);
  }).join();
}

// Simulates that another thread owns the thread's slot. For one thread in 1,024 the main thread
// does own it.
TEST(EpochTest, AThreadWithoutASeatHasSections) {
  std::thread([] {
    epoch::EpochRecord& slot = epoch::slot_of(epoch::thread_pointer());
    const bool was_taken = slot.taken.exchange(true);
    bool reclaimed = false;
    Node node(&reclaimed);
    {
      EpochSection section;
      EXPECT_EQ(epoch::own_slot(), nullptr);
      EXPECT_NE(epoch::registered(), nullptr);
      EXPECT_NE(epoch::registered(), &slot);
      retire(&node);
      { EpochSection nested; }
      reclaim_retired();
      EXPECT_FALSE(reclaimed);
    }
    reclaim_retired();
    EXPECT_TRUE(reclaimed);
    EXPECT_EQ(ShortEpochSection::who(), nullptr);
    if (!was_taken) slot.taken.store(false);
  }).join();
}

// An object read by many short-lived threads stays alive until every thread has left its section;
// epoch_records are reused.
TEST(EpochTest, ThreadsComeAndGo) {
  for (int round = 0; round < 50; ++round) {
    bool reclaimed = false;
    Node node(&reclaimed);
    std::atomic<int> inside{0};
    std::atomic<bool> leave{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        EpochSection section;
        ++inside;
        inside.notify_all();
        leave.wait(false);
      });
    }
    for (int seen = 0; (seen = inside.load()) != 4;) inside.wait(seen);
    retire(&node);
    reclaim_retired();
    EXPECT_FALSE(reclaimed);
    leave = true;
    leave.notify_all();
    for (auto& thread : threads) thread.join();
    reclaim_retired();
    EXPECT_TRUE(reclaimed);
  }
}

// Another library's thread-exit code may run after Keel has released the thread's epoch_record.
TEST(EpochTest, ASectionMayBeginWhileItsThreadEnds) {
  bool done = false;
  pthread_key_t key = 0;
  std::thread([&] {
    { EpochSection section; }  // creates Keel's key before |key|
    ASSERT_EQ(pthread_key_create(&key,
                                 [](void* flag) {
                                   EpochSection section;
                                   *static_cast<bool*>(flag) = true;
                                 }),
              0);
    pthread_setspecific(key, &done);
  }).join();
  pthread_key_delete(key);
  EXPECT_TRUE(done);
  bool reclaimed = false;
  Node node(&reclaimed);
  retire(&node);
  reclaim_retired();
  EXPECT_TRUE(reclaimed) << "the thread that ended still counts as inside";
}

}  // namespace
}  // namespace keel
