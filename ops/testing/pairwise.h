// SPDX-License-Identifier: Apache-2.0
// Covering arrays of strength two: few rows that contain every pair of levels of every two factors.
#ifndef KEEL_OPS_TESTING_PAIRWISE_H_
#define KEEL_OPS_TESTING_PAIRWISE_H_

#include <cstddef>
#include <vector>

namespace keel::ops {

// Two levels of different factors that no row may combine.
struct Exclusion {
  size_t factor, level;
  size_t other_factor, other_level;
};

// Returns rows with one level per factor; |levels| is the number of levels of each factor. Every
// pair of levels of different factors appears in at least one row, except the pairs of
// |exclusions|, which appear in none. Level 0 of a factor must have no exclusion, so that each row
// can be completed. Deterministic.
std::vector<std::vector<size_t>> pairwise(const std::vector<size_t>& levels,
                                          const std::vector<Exclusion>& exclusions = {});

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_PAIRWISE_H_
