// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/rendezvous_point.h"

#include <sched.h>

#include <algorithm>

namespace keel::bench::peers {

namespace {

// About 100 us: longer than a rank is late with small messages on a quiet machine.
constexpr uint32_t kSpins = 10000;

// Yields the core to its other hardware thread, if any.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void RendezvousPoint::arrive_and_wait(uint32_t rank) {
  std::atomic<uint64_t>& mine = flags_[rank].rendezvous_count;
  const uint64_t rendezvous = mine.load(std::memory_order_relaxed) + 1;
  mine.store(rendezvous, std::memory_order_release);
  for (const Flag& flag : flags_) {
    // A rank whose core is taken by other work is late by milliseconds; a rank that keeps spinning
    // may be the one that occupies this core.
    uint32_t spins = spin_ ? kSpins : 0;
    while (flag.rendezvous_count.load(std::memory_order_acquire) < rendezvous) {
      if (spins == 0) {
        sched_yield();
      } else {
        --spins;
        relax();
      }
    }
  }
}

double RendezvousPoint::largest(uint32_t rank, double value) {
  flags_[rank].value = value;
  arrive_and_wait(rank);
  double most = value;
  for (const Flag& flag : flags_) most = std::max(most, flag.value);
  arrive_and_wait(rank);
  return most;
}

}  // namespace keel::bench::peers
