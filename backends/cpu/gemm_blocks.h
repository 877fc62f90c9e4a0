// SPDX-License-Identifier: Apache-2.0
// How a product of float32 is gone through. The numbers were measured on one core with AVX-512 and
// a second cache of 2 MiB (docs/decisions/033-products-of-our-own.md); extents, strides and the
// size of the cache decide.
#ifndef KEEL_BACKENDS_CPU_GEMM_BLOCKS_H_
#define KEEL_BACKENDS_CPU_GEMM_BLOCKS_H_

#include <cstdint>

#include "backends/cpu/gemm.h"

namespace keel::cpu::gemm {

// In parts of |depth| of k, and of these |columns| of b after the other, which stay in the core's
// second cache while the rows of a pass by. What is not packed is read where it is.
struct Blocks {
  int64_t columns, depth;
  bool packs_a, packs_b;
  // Rows of b that is not packed follow each other so closely that caches find the next ones.
  bool reads_narrow_b;
};

// |columns| are multiples of |unit|, those that are multiplied at once, or all.
Blocks blocks_of(const Product& product, int64_t unit);

// A few rows times a transposed b, which packing it would cost more than.
bool is_along_depth(const Product& product);

// The extent of the fewest equal parts of |whole| that are no larger than |most|, in multiples of
// |unit|.
inline int64_t equal_part(int64_t whole, int64_t most, int64_t unit) {
  if (whole <= most) return whole;
  const int64_t parts = (whole + most - 1) / most;
  return ((whole + parts - 1) / parts + unit - 1) / unit * unit;
}

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_BLOCKS_H_
