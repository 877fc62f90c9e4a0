// SPDX-License-Identifier: Apache-2.0
// A point in time that a wait may not pass.
#ifndef KEEL_CORE_DEADLINE_H_
#define KEEL_CORE_DEADLINE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace keel {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // |timeout_ns| >= 0. Anything beyond a century is a century, so that adding it to
  // the clock cannot overflow.
  static Deadline after(int64_t timeout_ns) {
    constexpr int64_t kCentury = 3'155'760'000ll * 1'000'000'000ll;
    return Deadline(Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kCentury)));
  }

  Clock::time_point time() const { return time_; }
  bool passed() const { return Clock::now() >= time_; }
  // 0 when it has passed.
  int64_t remaining_ns() const {
    return std::max<int64_t>(
        0, std::chrono::duration_cast<std::chrono::nanoseconds>(time_ - Clock::now()).count());
  }

 private:
  explicit Deadline(Clock::time_point time) : time_(time) {}
  Clock::time_point time_;
};

}  // namespace keel

#endif  // KEEL_CORE_DEADLINE_H_
