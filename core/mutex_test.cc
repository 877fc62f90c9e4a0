// SPDX-License-Identifier: Apache-2.0
#include "core/mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace keel {
namespace {

TEST(MutexTest, OneThreadAtATime) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 50'000;
  Mutex mutex;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int time = 0; time < kTimes; ++time) {
        std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, int64_t{kThreads} * kTimes);
}

// A thread with try_lock may take the lock between one thread's unlock and the next one's wake-up.
TEST(MutexTest, WhoTriesLosesNobody) {
  constexpr int kTimes = 20'000;
  Mutex mutex;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, tries = i % 2 == 0] {
      for (int time = 0; time < kTimes; ++time) {
        std::unique_lock lock(mutex, std::defer_lock);
        if (tries) {
          while (!lock.try_lock()) std::this_thread::yield();
        } else {
          lock.lock();
        }
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4 * int64_t{kTimes});
}

TEST(MutexTest, WhoSleepsIsWoken) {
  Mutex mutex;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(mutex.try_lock());
  int woken = 0;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      std::lock_guard each(mutex);
      ++woken;
    });
  }
  lock.unlock();
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken, 3);
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace keel
