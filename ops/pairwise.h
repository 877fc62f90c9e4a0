// SPDX-License-Identifier: Apache-2.0
// Covering arrays of strength two: few rows, in which any two levels of any two factors meet.
#ifndef KEEL_OPS_PAIRWISE_H_
#define KEEL_OPS_PAIRWISE_H_

#include <cstddef>
#include <vector>

namespace keel::ops {

// Two levels, of different factors, that never meet in a row.
struct Exclusion {
  size_t factor, level;
  size_t other_factor, other_level;
};

// Rows of one level a factor, of |levels| each: every two levels of different factors meet in at
// least one row, but for those of |exclusions|, which meet in none. Level 0 of a factor must have
// no exclusion, so that each row can be completed. The same arguments give the same rows.
std::vector<std::vector<size_t>> pairwise(const std::vector<size_t>& levels,
                                          const std::vector<Exclusion>& exclusions = {});

}  // namespace keel::ops

#endif  // KEEL_OPS_PAIRWISE_H_
