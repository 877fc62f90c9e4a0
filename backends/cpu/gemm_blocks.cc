#include "backends/cpu/gemm_blocks.h"

#include <unistd.h>

#include <algorithm>

namespace keel::cpu::gemm {
namespace {

constexpr int64_t kBytes = sizeof(float);

// Bytes of the second cache of a core.
int64_t second_cache() {
  static const int64_t bytes = [] {
    constexpr int64_t kLeast = int64_t{1} << 19;  // where nobody says
    return std::max<int64_t>(kLeast, sysconf(_SC_LEVEL2_CACHE_SIZE));
  }();
  return bytes;
}

// Rows of a are read in place mostly, where a cache finds what comes next: packing pays where they
// are read for many columns. The columns of a transposed one are far apart: so many of them are as
// many pages.
bool packs_a(const Product& product) {
  constexpr int64_t kManyColumns = 1024;
  constexpr int64_t kManyOfTransposed = 100;
  constexpr int64_t kSomeOfTransposed = 32;
  constexpr int64_t kManyPages = int64_t{1} << 18;  // elements from the first to the last
  const int64_t n = product.n;
  if (!product.a.transposed) return n > kManyColumns;
  return n > kManyOfTransposed ||
         (n > kSomeOfTransposed && product.k * product.a.stride >= kManyPages);
}

// Rows of b that follow each other so closely that caches find the next ones.
bool is_narrow(const Matrix& b) {
  constexpr int64_t kNear = 128;  // elements
  return !b.transposed && b.stride <= kNear;
}

// All of b in the first two caches, where it is found though its rows are far apart.
bool is_small(const Product& product) {
  constexpr int64_t kSmall = int64_t{1} << 15;  // elements
  return product.n * product.k <= (is_narrow(product.b) ? second_cache() / 4 / kBytes : kSmall);
}

bool packs_b(const Product& product) {
  constexpr int64_t kFewRows = 96;  // for which it is read some times only
  return product.b.transposed || (product.m > kFewRows && !is_small(product));
}

}  // namespace

Blocks blocks_of(const Product& product, int64_t unit) {
  // 14 rows of a as long are half of a first cache of 48 KiB; c is read and written once for each
  // such part of k.
  constexpr int64_t kDepth = 512;
  // Few strips read the rows of a, which need not stay in the first cache for them.
  constexpr int64_t kNarrowDepth = 1024;
  // Of a b that is read in place: as many rows as a cache holds while all of a passes by.
  constexpr int64_t kLeastDepth = 32;
  constexpr int64_t kInCache = int64_t{1} << 17;  // elements
  Blocks blocks = {};
  blocks.packs_a = packs_a(product);
  blocks.packs_b = packs_b(product);
  blocks.reads_narrow_b = !blocks.packs_b && is_narrow(product.b);
  int64_t most_depth = kDepth;
  if (is_small(product)) {
    if (blocks.reads_narrow_b) most_depth = kNarrowDepth;
  } else if (!blocks.packs_b) {
    most_depth = std::clamp(kInCache / product.n / 8 * 8, kLeastDepth, kDepth);
  }
  blocks.depth = equal_part(product.k, most_depth, /*unit=*/8);
  // What b is packed from, a and c pass through that cache, too.
  const int64_t units = second_cache() / 8 * 3 / kBytes / blocks.depth / unit;
  blocks.columns =
      blocks.packs_b ? equal_part(product.n, std::max<int64_t>(1, units) * unit, unit) : product.n;
  return blocks;
}

bool is_along_depth(const Product& product) {
  constexpr int64_t kFewRows = 64;
  constexpr int64_t kDeep = 256;
  return product.b.transposed && !product.a.transposed && product.m <= kFewRows &&
         product.k >= kDeep;
}

}  // namespace keel::cpu::gemm
