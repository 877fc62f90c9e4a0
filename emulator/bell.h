// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_BELL_H_
#define KEEL_EMULATOR_BELL_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace keel::emulator {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = std::chrono::nanoseconds;

// What one thread sleeps on while others change what it waits for. Shared by its
// owner and those who may ring it late. Thread-safe.
class Bell {
 public:
  // Sleeps until |ready|, which reads atomics only, or |deadline|; what |ready| says then.
  template <typename Ready>
  bool wait_until(Time deadline, Ready ready) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, ready);
  }
  // After what |ready| reads was changed.
  void ring() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_BELL_H_
