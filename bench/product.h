// SPDX-License-Identifier: Apache-2.0
// The extents of a matrix product: c [m,n] = a [m,k] b [k,n], all dense and row-major.
#ifndef KEEL_BENCH_PRODUCT_H_
#define KEEL_BENCH_PRODUCT_H_

#include <cstdint>

namespace keel::bench {

struct Product {
  int64_t m, n, k;

  double operations() const { return 2.0 * static_cast<double>(m * n * k); }
  double elements() const { return static_cast<double>(m * k + k * n + m * n); }
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_PRODUCT_H_
