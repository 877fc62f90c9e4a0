// SPDX-License-Identifier: Apache-2.0
// Products of few rows with a transposed b, along k: b is read only once or twice, so packing b
// would cost more than the product. Compiled once per instruction set: included by gemm.cc after
// <hwy/highway.h>.
#if defined(KEEL_BACKENDS_CPU_GEMM_GEMM_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_GEMM_GEMM_DOT_INL_H_
#undef KEEL_BACKENDS_CPU_GEMM_GEMM_DOT_INL_H_
#else
#define KEEL_BACKENDS_CPU_GEMM_GEMM_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::gemm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a and rows of b^T whose products are summed at once, in registers: four times six with 32
// registers, three times four with 16.
constexpr int kDotRows = kRows > 6 ? 4 : 3;
constexpr int kDotColumns = kRows > 6 ? 6 : 4;

// Multiplies |depth| elements of the lines at |a| and |b| and stores sums[i * kDotColumns + j].
template <int kCount, int kWidth>
HWY_NOINLINE void dot_rows(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                           int64_t depth, float* sums) {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  V parts[kCount][kWidth];
  HWY_UNROLL(16)
  for (int i = 0; i < kCount; ++i) {
    HWY_UNROLL(16)
    for (int j = 0; j < kWidth; ++j) parts[i][j] = hn::Zero(d);
  }
  const int64_t whole = depth / lanes() * lanes();
  for (int64_t l = 0; l < whole; l += lanes()) {
    V of_a[kCount];
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i) of_a[i] = hn::LoadU(d, a + i * a_stride + l);
    HWY_UNROLL(16)
    for (int j = 0; j < kWidth; ++j) {
      const V of_b = hn::LoadU(d, b + j * b_stride + l);
      HWY_UNROLL(16)
      for (int i = 0; i < kCount; ++i) parts[i][j] = hn::MulAdd(of_a[i], of_b, parts[i][j]);
    }
  }
  HWY_UNROLL(16)
  for (int i = 0; i < kCount; ++i) {
    HWY_UNROLL(16)
    for (int j = 0; j < kWidth; ++j) {
      float sum = hn::GetLane(hn::SumOfLanes(d, parts[i][j]));
      for (int64_t l = whole; l < depth; ++l) sum += a[i * a_stride + l] * b[j * b_stride + l];
      sums[i * kDotColumns + j] = sum;
    }
  }
}

using DotFunction = void (*)(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                             int64_t depth, float* sums);

template <int kCount, int... kIndex>
constexpr std::array<DotFunction, kDotColumns> dots_of_width(
    std::integer_sequence<int, kIndex...>) {
  return {dot_rows<kCount, kIndex + 1>...};
}
template <int... kIndex>
constexpr std::array<std::array<DotFunction, kDotColumns>, kDotRows> all_dots(
    std::integer_sequence<int, kIndex...>) {
  return {dots_of_width<kIndex + 1>(std::make_integer_sequence<int, kDotColumns>())...};
}
// Indexed by rows - 1 and columns - 1.
inline constexpr auto kDots = all_dots(std::make_integer_sequence<int, kDotRows>());

// b is transposed, a is not.
HWY_INLINE void multiply_along_depth(const Product& p) {
  // Six lines of b of this length fit the second-level cache.
  constexpr int64_t kDepth = 4096;
  const auto* const a = static_cast<const float*>(p.a.data);
  const auto* const b = static_cast<const float*>(p.b.data);
  auto* const c = static_cast<float*>(p.c.data);
  for (int64_t l = 0; l < p.k; l += kDepth) {
    const int64_t depth = std::min(kDepth, p.k - l);
    const float beta = l == 0 ? p.beta : 1.0f;
    for (int64_t j = 0; j < p.n; j += kDotColumns) {
      const int64_t columns = std::min<int64_t>(kDotColumns, p.n - j);
      for (int64_t i = 0; i < p.m; i += kDotRows) {
        const int64_t rows = std::min<int64_t>(kDotRows, p.m - i);
        float sums[kDotRows * kDotColumns];
        kDots[static_cast<size_t>(rows - 1)][static_cast<size_t>(columns - 1)](
            a + i * p.a.stride + l, p.a.stride, b + j * p.b.stride + l, p.b.stride, depth, sums);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            float& sum = c[(i + row) * p.c.stride + j + column];
            const float added = p.alpha * sums[row * kDotColumns + column];
            sum = beta == 0.0f ? added : beta * sum + added;
          }
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::gemm
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_GEMM_GEMM_DOT_INL_H_
