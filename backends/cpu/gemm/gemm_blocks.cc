// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/gemm_blocks.h"

#include <algorithm>

#include "backends/cpu/runtime/caches.h"

namespace keel::cpu::gemm {
namespace {

constexpr int64_t kBytes = sizeof(float);

// Whether rows |stride| elements apart evict each other from a first-level cache of 8 ways, whose
// sets repeat every 4 KiB: a strip reads 14 rows of a at once. A cache of 12 ways holds enough
// rows.
bool is_driven_out(int64_t stride) {
  constexpr int64_t kPeriod = 4096 / kBytes;
  constexpr int64_t kEnoughWays = 12;
  const int64_t ways = first_cache_ways();
  return ways > 0 && ways < kEnoughWays && stride % kPeriod == 0;
}

// Rows of a are mostly read in place, where hardware prefetch finds the next elements: packing pays
// only if many columns read the rows. The columns of a transposed a are far apart, each in a page
// of its own.
bool packs_a(const Product& product) {
  constexpr int64_t kManyColumns = 1024;
  constexpr int64_t kManyOfDrivenOut = 256;  // Zen 4: 1024 x 1024 x 1024 is 1.25 times as fast
  constexpr int64_t kManyOfTransposed = 100;
  constexpr int64_t kSomeOfTransposed = 32;
  constexpr int64_t kManyPages = int64_t{1} << 18;  // elements from the first to the last
  const int64_t n = product.n;
  if (!product.a.transposed) {
    return n > (is_driven_out(product.a.stride) ? kManyOfDrivenOut : kManyColumns);
  }
  return n > kManyOfTransposed ||
         (n > kSomeOfTransposed && product.k * product.a.stride >= kManyPages);
}

// Whether rows of b are so close that hardware prefetch finds the next row.
bool is_narrow(const Matrix& b) {
  constexpr int64_t kNear = 128;  // elements
  return !b.transposed && b.stride <= kNear;
}

// Whether all of b fits the first two cache levels, where distant rows are found, too.
bool is_small(const Product& product) {
  constexpr int64_t kSmall = int64_t{1} << 15;  // elements
  return product.n * product.k <= (is_narrow(product.b) ? second_cache() / 4 / kBytes : kSmall);
}

bool packs_b(const Product& product) {
  constexpr int64_t kFewRows = 96;  // for which it is read some times only
  if (product.b.panel != 0) return false;
  return product.b.transposed || (product.m > kFewRows && !is_small(product));
}

}  // namespace

Blocks blocks_of(const Product& product, int64_t unit) {
  // 14 rows of a of this length take half of a first-level cache of 48 KiB. The product reads and
  // writes c once per part of k.
  constexpr int64_t kDepth = 512;
  // Few strips read the rows of a, which therefore need not stay in the first-level cache.
  constexpr int64_t kNarrowDepth = 1024;
  // For a b that is read in place: as many rows as a cache holds, together with c, while all of a
  // passes by. If c is too large, few columns, so that c is not evicted and reloaded: 1.15 times as
  // fast.
  constexpr int64_t kLeastDepth = 32;
  constexpr int64_t kInCache = int64_t{1} << 17;  // elements
  constexpr int64_t kFewColumns = 64;
  Blocks blocks = {};
  blocks.packs_a = packs_a(product);
  blocks.packs_b = packs_b(product);
  blocks.reads_narrow_b = !blocks.packs_b && is_narrow(product.b);
  int64_t most_depth = kDepth;
  int64_t most_columns = product.n;
  if (is_small(product)) {
    if (blocks.reads_narrow_b) most_depth = kNarrowDepth;
  } else if (!blocks.packs_b && product.b.panel == 0) {
    if (kInCache + product.m * product.n <= second_cache() / 4 * 3 / kBytes) {
      most_depth = std::clamp(kInCache / product.n / 8 * 8, kLeastDepth, kDepth);
    } else {
      most_columns = kFewColumns;
    }
  }
  blocks.depth = equal_part(product.k, most_depth, /*unit=*/8);
  if (blocks.packs_b || product.b.panel != 0) {
    // The source of b's panels, a and c pass through that cache, too.
    const int64_t units = second_cache() / 8 * 3 / kBytes / blocks.depth / unit;
    most_columns = std::max<int64_t>(1, units) * unit;
  }
  blocks.columns = equal_part(product.n, most_columns, unit);
  return blocks;
}

bool is_along_depth(const Product& product) {
  constexpr int64_t kFewRows = 64;
  constexpr int64_t kDeep = 256;
  return product.b.transposed && !product.a.transposed && product.m <= kFewRows &&
         product.k >= kDeep;
}

}  // namespace keel::cpu::gemm
