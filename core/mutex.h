// SPDX-License-Identifier: Apache-2.0
// The lock of hot paths.
#ifndef KEEL_CORE_MUTEX_H_
#define KEEL_CORE_MUTEX_H_

#include <atomic>
#include <cstdint>

namespace keel {

// A mutex of one word: uncontended, two atomic operations inline (4 instructions), where
// pthread's takes two calls and about 50. Waiters sleep in the kernel. For std::lock_guard
// and std::unique_lock; not for condition variables. Not recursive. Whatever it is in has to
// live until unlock() has returned.
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
  // Both are one instruction and a jump: a bit that is set and told as it was, a count that
  // comes to zero.
  bool try_lock() { return (word_.fetch_or(kHeld, std::memory_order_acquire) & kHeld) == 0; }
  void unlock() {
    if (word_.fetch_sub(kHeld, std::memory_order_release) != kHeld) [[unlikely]] {
      wake_one();
    }
  }

 private:
  static constexpr uint32_t kHeld = 1;     // a bit
  static constexpr uint32_t kAwaited = 2;  // a bit: somebody sleeps or is about to

  [[gnu::cold]] void lock_slowly() {
    // Whoever was woken cannot know of others, so it takes the lock as awaited.
    constexpr uint32_t kBoth = kHeld | kAwaited;
    while ((word_.fetch_or(kBoth, std::memory_order_acquire) & kHeld) != 0) {
      word_.wait(kBoth, std::memory_order_relaxed);
    }
  }
  // The lock is given up, and awaited. Whoever has taken it meanwhile wakes the next itself:
  // the bit is still set.
  [[gnu::cold]] void wake_one() {
    uint32_t seen = kAwaited;
    if (word_.compare_exchange_strong(seen, 0, std::memory_order_relaxed)) word_.notify_one();
  }

  std::atomic<uint32_t> word_{0};
};

}  // namespace keel

#endif  // KEEL_CORE_MUTEX_H_
