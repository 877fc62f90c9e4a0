#include <algorithm>
#include <cstddef>

#include "backends/cpu/gemm.h"

namespace keel::cpu::gemm {

// Rows of b are added to a strip of a row of c, which stays in the first-level
// cache (64 strips of 1 KiB read for each of b); the compiler vectorises the strip.
keel_status multiply_f32(const Product& product) {
  constexpr int64_t kStrip = 256;
  constexpr int64_t kDepth = 64;
  const auto* const a = static_cast<const float*>(product.a.data);
  const auto* const b = static_cast<const float*>(product.b.data);
  auto* const c = static_cast<float*>(product.c.data);
  const auto a_at = [&](int64_t i, int64_t p) {
    return a[product.a.transposed ? p * product.a.stride + i : i * product.a.stride + p];
  };
  float panel[kDepth][kStrip];

  for (int64_t j = 0; j < product.n; j += kStrip) {
    const int64_t width = std::min(kStrip, product.n - j);
    for (int64_t p = 0; p < product.k; p += kDepth) {
      const int64_t depth = std::min(kDepth, product.k - p);
      for (int64_t q = 0; q < depth; ++q) {
        for (int64_t x = 0; x < width; ++x) {
          panel[q][x] = b[product.b.transposed ? (j + x) * product.b.stride + p + q
                                               : (p + q) * product.b.stride + j + x];
        }
      }
      for (int64_t i = 0; i < product.m; ++i) {
        float* const row = c + i * product.c.stride + j;
        if (p == 0) {
          if (product.beta == 0.0f) {
            std::fill_n(row, width, 0.0f);
          } else {
            for (int64_t x = 0; x < width; ++x) row[x] *= product.beta;
          }
        }
        for (int64_t q = 0; q < depth; ++q) {
          const float factor = product.alpha * a_at(i, p + q);
          for (int64_t x = 0; x < width; ++x) row[x] += factor * panel[q][x];
        }
      }
    }
  }
  return KEEL_OK;
}

bool has_bf16() {
  return false;
}

keel_status multiply_bf16(const Product&, keel_dtype) {
  return KEEL_UNSUPPORTED;
}

const char* library() {
  return "loops of Keel";
}

}  // namespace keel::cpu::gemm
