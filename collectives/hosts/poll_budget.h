// SPDX-License-Identifier: Apache-2.0
// Decides how long a rank polls its wires before it parks.
#ifndef KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
#define KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace keel {

// Polls of the wires of one rank before it parks, learned from its waits. Between two processes
// that have a core each, a message takes some 20 us, and parking adds 10 us of system calls and
// wake-up. Where ranks share cores, polls take the time that the sender needs: an all_reduce of
// 8 bytes between 4 processes on 2 cores took 200 us with 20 polls before each park, and 120 to 150
// with this budget. For one thread.
class PollBudget {
 public:
  using Clock = std::chrono::steady_clock;

  uint32_t polls() const { return kMostPolls >> halvings_; }
  // Notes a wait from |begin|, the first poll in vain, until now.
  void note_wait(Clock::time_point begin) {
    const bool is_short = Clock::now() - begin < kShort;
    halvings_ =
        is_short ? halvings_ - std::min(halvings_, 1u) : std::min(halvings_ + 1, kMostHalvings);
  }

 private:
  static constexpr uint32_t kMostPolls = 20;
  static constexpr uint32_t kMostHalvings = 5;  // no poll but the first
  static constexpr std::chrono::microseconds kShort{25};

  uint32_t halvings_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_POLL_BUDGET_H_
