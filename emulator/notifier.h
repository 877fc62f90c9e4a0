// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_NOTIFIER_H_
#define KEEL_EMULATOR_NOTIFIER_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace keel::emulator {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = std::chrono::nanoseconds;

// Lets one thread sleep until a condition holds; threads that change the condition's state ring the
// notifier. Shared by the owner and all threads that may ring late. Thread-safe.
class Notifier {
 public:
  // Sleeps until |ready| returns true, or |deadline|; |ready| may read atomics only. Returns the
  // last result of |ready|.
  template <typename Ready>
  bool wait_until(Time deadline, Ready ready) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, ready);
  }
  // Wakes the sleeping thread. The caller first changes the state read by |ready|.
  void ring() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_NOTIFIER_H_
