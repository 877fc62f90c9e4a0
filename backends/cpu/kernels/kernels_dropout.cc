// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_dropout.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/philox-inl.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void dropout_add_f32(const DropoutMask& mask, int64_t first, const float* x, const float* bias,
                     const float* residual, float* y, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  HWY_ALIGN uint32_t words[8 * hn::MaxLanes(d)];
  const auto drawn = static_cast<int64_t>(4 * philox_counters(d));
  for (int64_t begin = 0; begin < count; begin += drawn) {
    philox(d, mask.offset + static_cast<uint64_t>((first + begin) / 4), mask.key, words);
    for_each_vector(std::min(drawn, count - begin), [&](auto df, int64_t j) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(df)> du;
      const auto word = hn::LoadU(du, words + j);
      const auto dropped = hn::RebindMask(df, hn::Lt(word, hn::Set(du, mask.threshold)));
      const int64_t i = begin + j;
      auto value = hn::LoadU(df, x + i);
      if (bias != nullptr) value = hn::Add(value, hn::LoadU(df, bias + i));
      value = hn::IfThenZeroElse(dropped, hn::Mul(value, hn::Set(df, mask.factor)));
      if (residual != nullptr) value = hn::Add(hn::LoadU(df, residual + i), value);
      hn::StoreU(value, df, y + i);
    });
  }
}

// Calls body(d, i, factors) for vectors that cover [0, count) once: |factors| are those of the
// elements from |first| + i on.
template <class Body>
HWY_INLINE void for_each_factor(const DropoutMask& mask, int64_t first, int64_t count,
                                const Body& body) {
  const hn::ScalableTag<uint64_t> d;
  HWY_ALIGN uint32_t words[8 * hn::MaxLanes(d)];
  const auto drawn = static_cast<int64_t>(4 * philox_counters(d));
  for (int64_t begin = 0; begin < count;) {
    const int64_t skipped = (first + begin) % 4;
    philox(d, mask.offset + static_cast<uint64_t>((first + begin) / 4), mask.key, words);
    const int64_t some = std::min(drawn - skipped, count - begin);
    for_each_vector(some, [&](auto df, int64_t j) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(df)> du;
      const auto word = hn::LoadU(du, words + skipped + j);
      const auto dropped = hn::RebindMask(df, hn::Lt(word, hn::Set(du, mask.threshold)));
      body(df, begin + j, hn::IfThenZeroElse(dropped, hn::Set(df, mask.factor)));
    });
    begin += some;
  }
}

void drop_f32(const DropoutMask& mask, int64_t first, float* x, int64_t count) {
  for_each_factor(mask, first, count, [&](auto d, int64_t i, auto factors) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factors), d, x + i);
  });
}

void dropped_softmax_slope_f32(const DropoutMask& mask, int64_t first, float* p, float row,
                               float scale, float* dp, int64_t count) {
  for_each_factor(mask, first, count, [&](auto d, int64_t i, auto factors) HWY_ATTR {
    const auto weight = hn::LoadU(d, p + i);
    const auto difference = hn::Sub(hn::Mul(hn::LoadU(d, dp + i), factors), hn::Set(d, row));
    hn::StoreU(hn::Mul(hn::Mul(weight, hn::Set(d, scale)), difference), d, dp + i);
    hn::StoreU(hn::Mul(weight, factors), d, p + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(dropout_add_f32);
HWY_EXPORT(drop_f32);
HWY_EXPORT(dropped_softmax_slope_f32);

DropoutMask DropoutMask::of(double p, int64_t seed, int64_t offset) {
  return {.key = static_cast<uint64_t>(seed),
          .offset = static_cast<uint64_t>(offset),
          .threshold = static_cast<uint32_t>(std::ldexp(p, 32)),
          .factor = static_cast<float>(1 / (1 - p))};
}

void dropout_add_f32(const DropoutMask& mask, int64_t first, const float* x, const float* bias,
                     const float* residual, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(dropout_add_f32)(mask, first, x, bias, residual, y, count);
}

void drop_f32(const DropoutMask& mask, int64_t first, float* x, int64_t count) {
  HWY_DYNAMIC_DISPATCH(drop_f32)(mask, first, x, count);
}

void dropped_softmax_slope_f32(const DropoutMask& mask, int64_t first, float* p, float row,
                               float scale, float* dp, int64_t count) {
  HWY_DYNAMIC_DISPATCH(dropped_softmax_slope_f32)(mask, first, p, row, scale, dp, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
