// SPDX-License-Identifier: Apache-2.0
// Distribution of a matrix row over the team that processes the row.
#ifndef KEEL_KERNELS_GPU_ROWS_H_
#define KEEL_KERNELS_GPU_ROWS_H_

#include "kernels/gpu/simt.h"

namespace keel::simt {

// Elements of |T| in the widest access.
template <typename T>
inline constexpr int kLanes = 16 / sizeof(T);

// Returns whether rows of |columns| elements of |T|, the first row at |address|, all begin at
// multiples of 16 bytes.
template <typename T>
KEEL_SIMT_FUNCTION bool has_aligned_rows(Address address, uint64_t columns) {
  return address % 16 == 0 && columns % kLanes<T> == 0;
}

// Calls body(Width<n>, c) for the columns c, c + 1, ... c + n - 1: covers [0, columns) once,
// |lanes| at a time for aligned rows. A thread gets the same columns in every call.
template <typename Team, int lanes, typename Body>
KEEL_SIMT_FUNCTION void for_each_column(uint64_t columns, bool is_aligned, const Body& body) {
  if (is_aligned) {
    for (uint64_t c = uint64_t{lanes} * Team::rank(); c < columns; c += lanes * Team::kSize) {
      body(Width<lanes>{}, c);
    }
  } else {
    for (uint64_t c = Team::rank(); c < columns; c += Team::kSize) body(Width<1>{}, c);
  }
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_ROWS_H_
