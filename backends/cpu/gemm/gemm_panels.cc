// SPDX-License-Identifier: Apache-2.0
// Packs b into panels once for many products.
#include "backends/cpu/gemm/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_panels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/gemm/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::gemm {
namespace HWY_NAMESPACE {

void pack_panels(const Matrix& b, int64_t k, int64_t first, int64_t columns, const Matrix& panels) {
  const int64_t width = panels.stride;
  const auto* const from = static_cast<const float*>(b.data);
  auto* const to = static_cast<float*>(panels.data);
  const int64_t whole = columns / width;
  if (!b.transposed) {
    pack_rows(from + b.offset(0, first), b.stride, k, whole, width, to + panels.offset(0, first));
  } else {
    for (int64_t j = first; j < first + whole * width; j += width) {
      pack_lines(from + b.offset(0, j), b.stride, width, k, width, to + panels.offset(0, j));
    }
  }
  const int64_t left = columns - whole * width;
  if (left == 0) return;
  const int64_t j = first + whole * width;
  float* const last = to + panels.offset(0, j);
  for (int64_t l = 0; l < k; ++l) {
    for (int64_t i = 0; i < left; ++i) last[l * width + i] = from[b.offset(l, j + i)];
    std::fill_n(last + l * width + left, width - left, 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::gemm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::gemm {

HWY_EXPORT(pack_panels);

Matrix panels_of_f32(int64_t k, int64_t n) {
  // A panel has two vectors of AVX-512, which are multiplied at once; a single strip needs no
  // panels.
  constexpr int64_t kPanel = 32;
  constexpr int64_t kFewColumns = 64;
  if (n <= kFewColumns) return {nullptr, n, /*transposed=*/false};
  return {nullptr, kPanel, /*transposed=*/false, k * kPanel};
}

void pack_f32(const Matrix& b, int64_t k, int64_t first, int64_t columns, const Matrix& panels) {
  HWY_DYNAMIC_DISPATCH(pack_panels)(b, k, first, columns, panels);
}

}  // namespace keel::cpu::gemm
#endif
