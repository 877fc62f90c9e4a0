// SPDX-License-Identifier: Apache-2.0
// Decides how long a rank polls its wires before it parks.
#ifndef KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
#define KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_

#include <chrono>
#include <cstdint>

#include "collectives/transports/spin_budget.h"
#include "collectives/transports/yield_guard.h"

namespace keel {

// Polls of the wires of one rank before it parks, learned from its waits, and yields between polls.
// Parking adds 10 us of system calls and wake-up to a message that takes some 20 us. Differs from
// the turns of WaitPolicy, since each poll is a system call: the budget counts polls, and the
// duration of a wait tells whether polling paid. For one thread.
class PollBudget {
 public:
  using Clock = std::chrono::steady_clock;

  uint32_t polls() const { return budget_.turns(kMostPolls); }
  // Notes a wait from |begin|, the first poll in vain, until now.
  void note_wait(Clock::time_point begin) { budget_.note(Clock::now() - begin < kShort); }

  // Between two polls. Returns the polls that this one counts for: more without a yield, as the
  // sender may need the core.
  static uint32_t relax() { return YieldGuard::of_thread().yield(/*turn=*/0) ? 1 : 5; }

 private:
  static constexpr uint32_t kMostPolls = 100;
  static constexpr std::chrono::microseconds kShort{100};

  SpinBudget budget_{/*most_halvings=*/7};  // no poll but the first
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
