// SPDX-License-Identifier: Apache-2.0
// Decides how long a rank polls its wires before it parks.
#ifndef KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
#define KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "collectives/transports/spin_budget.h"

namespace keel {

// Polls of the wires of one rank before it parks, learned from its waits, and yields between polls.
// Parking adds 10 us of system calls and wake-up to a message that takes some 20 us. Where ranks
// share cores, a yield hands the core to the sender, often the rank that is waited for: an
// all_reduce of 8 bytes between 2 processes that other work leaves one core took 6 us with yields
// and 27 to 70 us without. Where another program keeps the core, a yield lasts as long as that
// program's turn, so that after a long one the rank does not yield for a while. Differs from the
// turns of WaitPolicy, since each poll is a system call: the budget counts polls, and the duration
// of a wait tells whether polling paid. For one thread.
class PollBudget {
 public:
  using Clock = std::chrono::steady_clock;

  uint32_t polls() const { return budget_.turns(kMostPolls); }
  // Notes a wait from |begin|, the first poll in vain, until now.
  void note_wait(Clock::time_point begin) { budget_.note(Clock::now() - begin < kShort); }

  // Between two polls: lets another thread have the core, while that is known to take little time.
  // Returns the polls that this one counts for: more without a yield, as the sender may need the
  // core.
  uint32_t relax() {
    const Clock::time_point begin = Clock::now();
    if (!may_yield(begin)) return 5;
    sched_yield();
    note_yield(begin, Clock::now());
    return 1;
  }
  bool may_yield(Clock::time_point now) const { return now >= next_yield_; }
  void note_yield(Clock::time_point begin, Clock::time_point end) {
    if (end - begin <= kLongYield) return;
    const bool is_soon = begin < next_yield_ + rest_;
    factor_ = is_soon ? std::min(2 * factor_, kMostRest) : kLeastRest;
    rest_ = factor_ * (end - begin);
    next_yield_ = end + rest_;
  }

 private:
  static constexpr uint32_t kMostPolls = 100;
  static constexpr std::chrono::microseconds kShort{100};
  // A rank's turn between two waits takes 10 to 50 us; another program's, 3 ms.
  static constexpr std::chrono::microseconds kLongYield{300};
  // Rest after a long yield, in its own length. The ranks' start and their own work between
  // operations make some; only where the first yields after a rest are long again does another
  // program have the core, and a hundredth of the time at most is lost to it.
  static constexpr int kLeastRest = 5;
  static constexpr int kMostRest = 160;

  SpinBudget budget_{/*most_halvings=*/7};  // no poll but the first
  int factor_ = kLeastRest;
  Clock::duration rest_{};  // the last one
  Clock::time_point next_yield_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
