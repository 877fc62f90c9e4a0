// SPDX-License-Identifier: Apache-2.0
// Wait policy: how a thread waits for other ranks.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WAIT_POLICY_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WAIT_POLICY_H_

#include <algorithm>
#include <cstdint>

#include "core/deadline.h"

namespace keel {

// A wait spins for a number of turns and then parks, in one of two modes. SpinBudget and
// AdaptiveSpin learn how many of the turns a wait takes; YieldGuard, whether yields are worth it.
//
//                             dedicated                         oversubscribed
//                             (a core per rank)                 (more ranks than cores)
//   a turn (Waiter::spin)     a pause instruction; each 256th   a yield; without one, the
//                             also a yield                      wait parks
//   turns_before_park()       50 us                             200
//   turns_before_worker()     20 us                             100
//   parked                    until woken, at most kSliceNs     the same
//
// Park: parking and being woken may cost 5 us on bare metal, and 50 us in a virtual machine, whose
// idle cores must be called back. 200 yields take some 40 us when no thread takes the core; a yield
// to another thread lasts as long as that thread's turn.
//
// Worker: a call that would leave the operation to the worker thread spares two thread switches,
// some 20 us, by waiting. 100 yields take as long, if no thread takes the core.
class WaitPolicy {
 public:
  // Longest time for which a thread parks: it notices within one slice any change that wakes no
  // thread.
  static constexpr int64_t kSliceNs = 20'000'000;

  explicit WaitPolicy(bool oversubscribed);

  bool oversubscribed() const { return oversubscribed_; }
  uint32_t turns_before_park() const { return turns_before_park_; }
  uint32_t turns_before_worker() const { return turns_before_worker_; }
  // One pause instruction.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  // How long a thread parks that waits until |deadline|.
  static int64_t slice_ns(const Deadline& deadline) {
    return std::min(kSliceNs, deadline.remaining_ns());
  }

 private:
  bool oversubscribed_;
  uint32_t turns_before_park_;
  uint32_t turns_before_worker_;
};

// Number of pause instructions in |ns|: one takes 9 ns on a Granite Rapids, 25 ns on a Cascade
// Lake. Measured once per process, within 50 us. Thread-safe.
uint32_t pauses_in(int64_t ns);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WAIT_POLICY_H_
