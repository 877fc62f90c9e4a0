// SPDX-License-Identifier: Apache-2.0
// The blocking of a float32 product. The numbers were measured on one core with AVX-512 and a
// second-level cache of 2 MiB (docs/decisions/033-products-of-our-own.md). Inputs of the choice:
// extents, strides and the cache size.
#ifndef KEEL_BACKENDS_CPU_GEMM_GEMM_BLOCKS_H_
#define KEEL_BACKENDS_CPU_GEMM_GEMM_BLOCKS_H_

#include <cstdint>

#include "backends/cpu/gemm/gemm.h"

namespace keel::cpu::gemm {

// The product runs over parts of k of |depth| rows and, within each part, over groups of |columns|
// columns of b. A group stays in the core's second-level cache while the rows of a pass by.
// Operands that are not packed are read in place.
struct Blocks {
  int64_t columns, depth;
  bool packs_a, packs_b;
  // b is not packed, and its rows are so close that hardware prefetch finds the next row.
  bool reads_narrow_b;
};

// |columns| is a multiple of |unit|, the columns multiplied at once, or all columns.
Blocks blocks_of(const Product& product, int64_t unit);

// Whether the product has few rows and a transposed b, where packing b would cost more than the
// product.
bool is_along_depth(const Product& product);

// The size of the fewest equal parts of |whole| that are at most |most|, rounded up to a multiple
// of |unit|.
inline int64_t equal_part(int64_t whole, int64_t most, int64_t unit) {
  if (whole <= most) return whole;
  const int64_t parts = (whole + most - 1) / most;
  return ((whole + parts - 1) / parts + unit - 1) / unit * unit;
}

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_GEMM_BLOCKS_H_
