// SPDX-License-Identifier: Apache-2.0
// Spin budget of the waits of one thread, learned from the waits.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_SPIN_BUDGET_H_
#define KEEL_COLLECTIVES_TRANSPORTS_SPIN_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace keel {

// A wait that had to park halves the budget of the next wait, as where each step waits for a
// device; a wait that succeeded while spinning doubles it again. For one thread.
class SpinBudget {
 public:
  // After |most_halvings| the budget stays.
  explicit SpinBudget(uint32_t most_halvings) : most_halvings_(most_halvings) {}

  // Returns the turns of the next wait, of |most| with the whole budget.
  uint32_t turns(uint32_t most) const { return most >> halvings_; }
  // Takes the budget away, as after |most_halvings| waits in vain.
  void spend() { halvings_ = most_halvings_; }
  // Records whether the last wait succeeded while spinning.
  void note(bool came) {
    halvings_ =
        came ? halvings_ - std::min(halvings_, 1u) : std::min(halvings_ + 1, most_halvings_);
  }

 private:
  const uint32_t most_halvings_;
  uint32_t halvings_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_SPIN_BUDGET_H_
