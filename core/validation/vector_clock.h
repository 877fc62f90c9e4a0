// SPDX-License-Identifier: Apache-2.0
// The known progress of each of several timelines.
#ifndef KEEL_CORE_VALIDATION_VECTOR_CLOCK_H_
#define KEEL_CORE_VALIDATION_VECTOR_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace keel::validation {

// Timelines are numbered by slots; an epoch counts the operations of one timeline, from 1.
class VectorClock {
 public:
  uint64_t at(uint32_t slot) const { return slot < epochs_.size() ? epochs_[slot] : 0; }
  void set(uint32_t slot, uint64_t epoch) {
    if (slot >= epochs_.size()) epochs_.resize(slot + 1, 0);
    epochs_[slot] = epoch;
  }
  // Adds all knowledge of |other|.
  void join(const VectorClock& other) {
    if (other.epochs_.size() > epochs_.size()) epochs_.resize(other.epochs_.size(), 0);
    for (size_t i = 0; i < other.epochs_.size(); ++i) {
      epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
    }
  }

 private:
  std::vector<uint64_t> epochs_;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_VECTOR_CLOCK_H_
