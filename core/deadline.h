// SPDX-License-Identifier: Apache-2.0
// A time limit for a blocking wait.
#ifndef KEEL_CORE_DEADLINE_H_
#define KEEL_CORE_DEADLINE_H_

#include <keel/abi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/api_state.h"

namespace keel {

// The sum of two timeouts in nanoseconds, at most INT64_MAX.
constexpr int64_t add_timeouts(int64_t one, int64_t other) {
  return other > INT64_MAX - one ? INT64_MAX : one + other;
}

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // |timeout_ns| >= 0. Values beyond a century are clamped to a century, so that adding the timeout
  // to the clock cannot overflow.
  static Deadline after(int64_t timeout_ns) { return {timeout_ns, /*ends_with_keel=*/false}; }
  // Like after(), but the deadline also passes as soon as keel_shutdown is called. keel_shutdown
  // does not wake waiting threads, so waits with this deadline are cut into slices of kSliceNs.
  // |cancelled|, unless NULL, must outlive the deadline, which also passes once it is set.
  static Deadline after_or_shutdown(int64_t timeout_ns,
                                    const std::atomic<bool>* cancelled = nullptr) {
    Deadline made(timeout_ns, /*ends_with_keel=*/true);
    made.cancelled_ = cancelled;
    return made;
  }
  static constexpr int64_t kSliceNs = 50'000'000;

  bool passed() const { return is_cut_off() || Clock::now() >= time_; }
  // Whether keel_shutdown or a cancellation has made the deadline pass.
  bool is_cut_off() const {
    if (!ends_with_keel_) return false;
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_acquire)) return true;
    return g_api_state.load(std::memory_order_acquire) == ApiState::kEnding;
  }
  // 0 after the deadline has passed.
  int64_t remaining_ns() const {
    if (is_cut_off()) return 0;
    return std::max<int64_t>(
        0, std::chrono::duration_cast<std::chrono::nanoseconds>(time_ - Clock::now()).count());
  }
  // Longest wait before the caller must check passed() again; at most remaining_ns().
  int64_t slice_ns() const {
    return ends_with_keel_ ? std::min(remaining_ns(), kSliceNs) : remaining_ns();
  }

  // Blocks on |condition|, with |lock| held as |condition| requires, until |is_over|() or the
  // deadline. Returns |is_over|().
  template <typename Condition, typename Lock, typename IsOver>
  bool wait(Condition& condition, Lock& lock, const IsOver& is_over) const {
    while (!condition.wait_until(lock, slice_end(), is_over)) {
      if (passed()) return is_over();
    }
    return true;
  }
  // Calls |wait|(nanoseconds), a blocking plugin function, until |wait| returns a code other than
  // KEEL_TIMED_OUT or the deadline has passed. Returns the last code.
  template <typename Wait>
  keel_status wait_in_slices(const Wait& wait) const {
    while (true) {
      const keel_status code = wait(slice_ns());
      if (code != KEEL_TIMED_OUT || !ends_with_keel_ || passed()) return code;
      // A plugin whose wait times out at once must not keep a core busy.
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  Deadline(int64_t timeout_ns, bool ends_with_keel)
      : time_(Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kCenturyNs))),
        ends_with_keel_(ends_with_keel) {}
  Clock::time_point slice_end() const {
    if (!ends_with_keel_) return time_;
    return std::min(time_, Clock::now() + std::chrono::nanoseconds(kSliceNs));
  }

  static constexpr int64_t kCenturyNs = 3'155'760'000ll * 1'000'000'000ll;

  Clock::time_point time_;
  bool ends_with_keel_;
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace keel

#endif  // KEEL_CORE_DEADLINE_H_
