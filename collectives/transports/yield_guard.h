// SPDX-License-Identifier: Apache-2.0
// Yields of a thread that waits, as long as they take little time.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_YIELD_GUARD_H_
#define KEEL_COLLECTIVES_TRANSPORTS_YIELD_GUARD_H_

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace keel {

// Where ranks share cores, a yield hands the core to another rank, often the one that is waited
// for: an all_reduce of 8 bytes between 2 processes that other work leaves one core took 6 us with
// yields and 27 to 70 us without. Where another program keeps the core, a yield lasts as long as
// that program's turn: beside one busy program a core, an all_reduce of 8 bytes among 4 processes
// on 2 cores took 3500 us with yields and takes 70 us with this guard. After a second long yield in
// a row, or nearly so, the thread yields no more for a while. For one thread.
class YieldGuard {
 public:
  using Clock = std::chrono::steady_clock;

  static YieldGuard& of_thread() {
    static thread_local YieldGuard guard;
    return guard;
  }

  // Lets another thread have the core, unless that may take long. Returns whether it did. |turn|:
  // of the wait, from 0.
  bool yield(uint32_t turn) {
    // A poll lies between two turns of a wait, too short to read the clock again.
    const Clock::time_point begin = turn == 0 ? Clock::now() : end_;
    if (!may_yield(begin)) return false;
    sched_yield();
    end_ = Clock::now();
    note_yield(begin, end_);
    return true;
  }
  bool may_yield(Clock::time_point now) const { return now >= next_yield_; }
  void note_yield(Clock::time_point begin, Clock::time_point end) {
    if (end - begin <= kLongYield) {
      short_ = std::min(short_ + 1, kSoon);
      return;
    }
    factor_ = short_ < kSoon ? std::clamp(2 * factor_, 1, kMostRest) : 0;
    next_yield_ = end + factor_ * (end - begin);
    short_ = 0;
  }

 private:
  // A rank's turn between two waits takes 10 to 50 us; another program's, 3 ms.
  static constexpr std::chrono::microseconds kLongYield{1000};
  // Two long yields with fewer short ones between them: another program has the core, perhaps with
  // a lower priority. The ranks' start and their own work make single ones.
  static constexpr int kSoon = 256;
  // Rest after a long yield, in its own length, at most. It doubles with each one.
  static constexpr int kMostRest = 16;

  int factor_ = 0;
  int short_ = kSoon;      // yields since the last long one, up to kSoon
  Clock::time_point end_;  // of the last yield
  Clock::time_point next_yield_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_YIELD_GUARD_H_
