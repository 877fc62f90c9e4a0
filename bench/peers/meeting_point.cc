// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/meeting_point.h"

#include <sched.h>

#include <algorithm>

namespace keel::bench::peers {

namespace {

// Some 100 us: longer than any rank of a quiet machine stays away with small messages.
constexpr uint32_t kSpins = 10000;

// Lets the other thread of the core go on, where cores have two.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void MeetingPoint::arrive_and_wait(uint32_t rank) {
  std::atomic<uint64_t>& mine = flags_[rank].meetings;
  const uint64_t meeting = mine.load(std::memory_order_relaxed) + 1;
  mine.store(meeting, std::memory_order_release);
  for (const Flag& flag : flags_) {
    // A rank whose core something else has taken comes late by milliseconds; whoever spins on
    // then may be what keeps it away.
    uint32_t spins = spin_ ? kSpins : 0;
    while (flag.meetings.load(std::memory_order_acquire) < meeting) {
      if (spins == 0) {
        sched_yield();
      } else {
        --spins;
        relax();
      }
    }
  }
}

double MeetingPoint::largest(uint32_t rank, double value) {
  flags_[rank].value = value;
  arrive_and_wait(rank);
  double most = value;
  for (const Flag& flag : flags_) most = std::max(most, flag.value);
  arrive_and_wait(rank);
  return most;
}

}  // namespace keel::bench::peers
