// SPDX-License-Identifier: Apache-2.0
// Decides how long a rank polls its wires before it parks.
#ifndef KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
#define KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_

#include <chrono>
#include <cstdint>

#include "collectives/transports/spin_budget.h"

namespace keel {

// Polls of the wires of one rank before it parks, learned from its waits. Between two processes
// that have a core each, a message takes some 20 us, and parking adds 10 us of system calls and
// wake-up. Where ranks share cores, polls take the time that the sender needs: an all_reduce of
// 8 bytes between 4 processes on 2 cores took 200 us with 20 polls before each park, and 120 to 150
// with this budget. Differs from the turns of WaitPolicy, since each poll is a system call: the
// budget counts polls, and the duration of a wait tells whether polling paid. For one thread.
class PollBudget {
 public:
  using Clock = std::chrono::steady_clock;

  uint32_t polls() const { return budget_.turns(kMostPolls); }
  // Notes a wait from |begin|, the first poll in vain, until now.
  void note_wait(Clock::time_point begin) { budget_.note(Clock::now() - begin < kShort); }

 private:
  static constexpr uint32_t kMostPolls = 20;
  static constexpr std::chrono::microseconds kShort{25};

  SpinBudget budget_{/*most_halvings=*/5};  // no poll but the first
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
