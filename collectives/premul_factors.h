// SPDX-License-Identifier: Apache-2.0
// Numbers of keel_premul_sum_create.
#ifndef KEEL_COLLECTIVES_PREMUL_FACTORS_H_
#define KEEL_COLLECTIVES_PREMUL_FACTORS_H_

#include <keel/keel.h>

#include <cstdint>
#include <vector>

#include "core/status.h"

namespace keel {

// The reductions with a factor of one communicator. The number of a removed reduction is not given
// out again before 8192 others of its index, so that a stale number is refused and not taken for
// another factor. Not thread-safe.
class PremulFactors {
 public:
  // Numbers begin here, above those of all reductions of keel.h.
  static constexpr keel_reduction kFirst = 1 << 8;
  // Reductions at a time.
  static constexpr uint32_t kMost = 1 << 16;

  // KEEL_OUT_OF_RANGE with kMost reductions.
  Status add(double factor, keel_reduction* out_reduction) {
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (entries_.size() < kMost) {
      free_.reserve(entries_.size() + 1);  // remove() does not fail
      index = static_cast<uint32_t>(entries_.size());
      entries_.push_back({});
    } else {
      return failure(KEEL_OUT_OF_RANGE, "the communicator has {} reductions with a factor", kMost);
    }
    entries_[index].factor = factor;
    entries_[index].is_used = true;
    *out_reduction = number_of(index);
    return {};
  }

  // Returns NULL if |reduction| is none, or no longer.
  const double* find(keel_reduction reduction) const {
    const uint32_t index = index_of(reduction);
    if (index >= entries_.size() || !entries_[index].is_used || number_of(index) != reduction) {
      return nullptr;
    }
    return &entries_[index].factor;
  }

  // Returns whether |reduction| was one.
  bool remove(keel_reduction reduction) {
    if (find(reduction) == nullptr) return false;
    Entry& entry = entries_[index_of(reduction)];
    entry.is_used = false;
    entry.round = (entry.round + 1) % kRounds;
    free_.push_back(index_of(reduction));
    return true;
  }

 private:
  struct Entry {
    double factor = 1;
    uint32_t round = 0;  // times that the index was freed
    bool is_used = false;
  };

  static constexpr uint32_t kRounds = 1 << 13;  // the highest number is below 2^30
  keel_reduction number_of(uint32_t index) const {
    return kFirst + (entries_[index].round * kMost + index);
  }
  static uint32_t index_of(keel_reduction reduction) { return (reduction - kFirst) % kMost; }

  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_PREMUL_FACTORS_H_
