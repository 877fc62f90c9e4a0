// SPDX-License-Identifier: Apache-2.0
// The steps of a shrink, at which tests let a rank end.
#ifndef KEEL_COLLECTIVES_SHRINK_STEP_H_
#define KEEL_COLLECTIVES_SHRINK_STEP_H_

#include <atomic>

namespace keel {

enum class ShrinkStep {
  kEnded,    // the operations of the failed communicator have ended
  kVoted,    // on one host: this rank is in
  kAgreed,   // the group is known
  kTold,     // between hosts, for the server: one rank has been sent the table of the new job
  kOffered,  // on one host: this rank has made the new segment
  kJoined,   // between hosts: all ranks of the group have met
  kEntered,  // this rank is in the new communicator, which is not final yet
  kDecided,  // between hosts, for the server: one rank has been sent that the group is final
};

// Called by each shrink at each step; NULL but in tests.
inline std::atomic<void (*)(ShrinkStep)> g_shrink_observer{nullptr};

inline void reach(ShrinkStep step) {
  if (auto* const observer = g_shrink_observer.load(std::memory_order_relaxed)) observer(step);
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SHRINK_STEP_H_
