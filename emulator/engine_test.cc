// SPDX-License-Identifier: Apache-2.0
#include "emulator/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace keel::emulator {
namespace {

TEST(EngineTest, TheMostUrgentIsNextThenTheFirstToCome) {
  Engine engine;
  const auto never = [] { return false; };
  ASSERT_TRUE(engine.acquire(0, std::make_shared<Notifier>(), never));
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  const int priorities[] = {5, 0, -3, 0, -3};
  for (size_t i = 0; i < std::size(priorities); ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(engine.acquire(priorities[i], std::make_shared<Notifier>(), never));
      {
        const std::lock_guard lock(mutex);
        order.push_back(static_cast<int>(i));
      }
      engine.release(Time());
    });
    while (engine.waiting() <= i) std::this_thread::yield();
  }
  engine.release(Time());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{2, 4, 1, 3, 0}));
}

TEST(EngineTest, AWaiterThatGivesUpIsPassedOver) {
  Engine engine;
  ASSERT_TRUE(engine.acquire(0, std::make_shared<Notifier>(), [] { return false; }));
  const auto notifier = std::make_shared<Notifier>();
  std::atomic<bool> given_up{false};
  std::thread waiter(
      [&] { EXPECT_FALSE(engine.acquire(-1, notifier, [&] { return given_up.load(); })); });
  while (engine.waiting() == 0) std::this_thread::yield();
  given_up = true;
  notifier->ring();
  waiter.join();
  engine.release(Time());
  EXPECT_TRUE(engine.acquire(0, notifier, [] { return false; })) << "it was left to nobody";
}

}  // namespace
}  // namespace keel::emulator
