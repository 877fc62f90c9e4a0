// SPDX-License-Identifier: Apache-2.0
// A mutex for hot paths.
#ifndef KEEL_CORE_MUTEX_H_
#define KEEL_CORE_MUTEX_H_

#include <atomic>
#include <cstdint>

namespace keel {

// A mutex of one word: an uncontended lock and unlock are two atomic operations inline (4
// instructions); pthread's takes two calls and about 50 instructions. Waiters sleep in the kernel.
// Works with std::lock_guard and std::unique_lock; not with std::condition_variable. Not recursive.
// The object that contains the mutex must live until unlock() has returned.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]] {
      lock_slowly();
    }
  }
  // Each is one instruction and a jump: try_lock() sets a bit and tests its old value, unlock()
  // tests whether the word becomes zero.
  bool try_lock() { return (word_.fetch_or(kHeld, std::memory_order_acquire) & kHeld) == 0; }
  void unlock() {
    if (word_.fetch_sub(kHeld, std::memory_order_release) != kHeld) [[unlikely]] {
      wake_one();
    }
  }

 private:
  static constexpr uint32_t kHeld = 1;     // a bit
  static constexpr uint32_t kAwaited = 2;  // a bit: a thread sleeps or is about to

  [[gnu::cold]] void lock_slowly() {
    // A woken thread cannot know whether more threads sleep, so it takes the lock with kAwaited
    // set.
    constexpr uint32_t kBoth = kHeld | kAwaited;
    while ((word_.fetch_or(kBoth, std::memory_order_acquire) & kHeld) != 0) {
      word_.wait(kBoth, std::memory_order_relaxed);
    }
  }
  // The lock was released with kAwaited set. A thread that has taken the lock meanwhile wakes the
  // next waiter: the bit is still set.
  [[gnu::cold]] void wake_one() {
    uint32_t seen = kAwaited;
    if (word_.compare_exchange_strong(seen, 0, std::memory_order_relaxed)) word_.notify_one();
  }

  std::atomic<uint32_t> word_{0};
};

}  // namespace keel

#endif  // KEEL_CORE_MUTEX_H_
