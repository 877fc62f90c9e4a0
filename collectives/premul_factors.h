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
// out again before 8192 others of its place, so that a stale number is refused and not taken for
// another factor. Not thread-safe.
class PremulFactors {
 public:
  // Numbers begin here, above those of all reductions of keel.h.
  static constexpr keel_reduction kFirst = 1 << 8;
  // Reductions at a time.
  static constexpr uint32_t kMost = 1 << 16;

  // KEEL_OUT_OF_RANGE with kMost reductions.
  Status add(double factor, keel_reduction* out_reduction) {
    uint32_t place = 0;
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
    } else if (places_.size() < kMost) {
      free_.reserve(places_.size() + 1);  // remove() does not fail
      place = static_cast<uint32_t>(places_.size());
      places_.push_back({});
    } else {
      return failure(KEEL_OUT_OF_RANGE, "the communicator has {} reductions with a factor", kMost);
    }
    places_[place].factor = factor;
    places_[place].is_used = true;
    *out_reduction = number_of(place);
    return {};
  }

  // Returns NULL if |reduction| is none, or no longer.
  const double* find(keel_reduction reduction) const {
    const uint32_t place = place_of(reduction);
    if (place >= places_.size() || !places_[place].is_used || number_of(place) != reduction) {
      return nullptr;
    }
    return &places_[place].factor;
  }

  // Returns whether |reduction| was one.
  bool remove(keel_reduction reduction) {
    if (find(reduction) == nullptr) return false;
    Place& place = places_[place_of(reduction)];
    place.is_used = false;
    place.round = (place.round + 1) % kRounds;
    free_.push_back(place_of(reduction));
    return true;
  }

 private:
  struct Place {
    double factor = 1;
    uint32_t round = 0;  // times that the place was freed
    bool is_used = false;
  };

  static constexpr uint32_t kRounds = 1 << 13;  // the highest number is below 2^30
  keel_reduction number_of(uint32_t place) const {
    return kFirst + (places_[place].round * kMost + place);
  }
  static uint32_t place_of(keel_reduction reduction) { return (reduction - kFirst) % kMost; }

  std::vector<Place> places_;
  std::vector<uint32_t> free_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_PREMUL_FACTORS_H_
