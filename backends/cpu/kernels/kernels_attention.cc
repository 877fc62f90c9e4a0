// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_attention.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include "backends/cpu/kernels/exp-inl.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float exp_and_sum_f32(float* x, float shift, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto top = hn::Set(d, shift);
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = exp_in_range(d, hn::Sub(hn::LoadU(d, x + i), top));
    const auto second = exp_in_range(d, hn::Sub(hn::LoadU(d, x + i + lanes), top));
    hn::StoreU(first, d, x + i);
    hn::StoreU(second, d, x + i + lanes);
    even = hn::Add(even, first);
    odd = hn::Add(odd, second);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    const auto value = exp_in_range(one, hn::Sub(hn::LoadU(one, x + i), hn::Set(one, shift)));
    hn::StoreU(value, one, x + i);
    sum += hn::GetLane(value);
  }
  return sum;
}

void softmax_slope_f32(const float* p, float row, float scale, float* dp, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto difference = hn::Sub(hn::LoadU(d, dp + i), hn::Set(d, row));
    const auto weight = hn::Mul(hn::LoadU(d, p + i), hn::Set(d, scale));
    hn::StoreU(hn::Mul(weight, difference), d, dp + i);
  });
}

void blend_f32(const float* a, float of_a, const float* b, float of_b, float* out, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, a + i), hn::Set(d, of_a));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, b + i), hn::Set(d, of_b), scaled), d, out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(exp_and_sum_f32);
HWY_EXPORT(softmax_slope_f32);
HWY_EXPORT(blend_f32);

float exp_and_sum_f32(float* x, float shift, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(exp_and_sum_f32)(x, shift, count);
}

void softmax_slope_f32(const float* p, float row, float scale, float* dp, int64_t count) {
  HWY_DYNAMIC_DISPATCH(softmax_slope_f32)(p, row, scale, dp, count);
}

void blend_f32(const float* a, float of_a, const float* b, float of_b, float* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(blend_f32)(a, of_a, b, of_b, out, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
