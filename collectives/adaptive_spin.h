// SPDX-License-Identifier: Apache-2.0
// Spin budget of a call waiting for the peers, before the worker thread takes over.
#ifndef KEEL_COLLECTIVES_ADAPTIVE_SPIN_H_
#define KEEL_COLLECTIVES_ADAPTIVE_SPIN_H_

#include <algorithm>
#include <cstdint>

#include "collectives/transports/wait_policy.h"

namespace keel {

// The budget is the possible gain, the cost of two thread switches, as in a competitive spin lock:
// a call never costs more than twice the better choice (Karlin et al. 1991). A rank whose calls
// always come first, because one thread calls for several ranks or because the rank has less to do,
// would lose the budget each time: after each wait in vain the next waits are skipped, twice as
// many as before. Differs from SpinBudget, since half a spin of such a rank is as much in vain as a
// whole one. For one thread at a time.
class AdaptiveSpin {
 public:
  explicit AdaptiveSpin(const WaitPolicy& policy) : most_(policy.turns_before_worker()) {}

  // Turns of Waiter::spin() in the next call.
  uint32_t turns() const { return left_out_ == 0 ? most_ : 0; }
  // Records whether the peers came within the budget.
  void note(bool came) {
    if (left_out_ != 0) {
      --left_out_;
    } else if (came) {
      in_vain_ = 0;
    } else {
      left_out_ = in_vain_;
      in_vain_ = std::min(2 * in_vain_ + 1, kMostLeftOut);
    }
  }

 private:
  static constexpr uint32_t kMostLeftOut = 31;

  const uint32_t most_;
  uint32_t in_vain_ = 0;
  uint32_t left_out_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ADAPTIVE_SPIN_H_
