// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_rope.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// (a, b) becomes (a c - b s, b c + a s).
template <class D, class V = hn::Vec<D>>
HWY_INLINE void rotate(D d, const float* cosine, const float* sine, float direction, V* a, V* b) {
  const V c = hn::LoadU(d, cosine);
  const V s = hn::Mul(hn::LoadU(d, sine), hn::Set(d, direction));
  const V first = hn::MulSub(*a, c, hn::Mul(*b, s));
  *b = hn::MulAdd(*b, c, hn::Mul(*a, s));
  *a = first;
}

void rotate_halves_f32(const float* first, const float* second, const float* cosine,
                       const float* sine, bool inverse, float* first_out, float* second_out,
                       int64_t count) {
  const float direction = inverse ? -1.0f : 1.0f;
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    auto a = hn::LoadU(d, first + i);
    auto b = hn::LoadU(d, second + i);
    rotate(d, cosine + i, sine + i, direction, &a, &b);
    hn::StoreU(a, d, first_out + i);
    hn::StoreU(b, d, second_out + i);
  });
}

void rotate_pairs_f32(const float* x, const float* cosine, const float* sine, bool inverse,
                      float* y, int64_t count) {
  const float direction = inverse ? -1.0f : 1.0f;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    rotate(d, cosine + i, sine + i, direction, &a, &b);
    hn::StoreInterleaved2(a, b, d, y + 2 * i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    auto a = hn::Set(one, x[2 * i]);
    auto b = hn::Set(one, x[2 * i + 1]);
    rotate(one, cosine + i, sine + i, direction, &a, &b);
    y[2 * i] = hn::GetLane(a);
    y[2 * i + 1] = hn::GetLane(b);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(rotate_halves_f32);
HWY_EXPORT(rotate_pairs_f32);

void rotate_halves_f32(const float* first, const float* second, const float* cosine,
                       const float* sine, bool inverse, float* first_out, float* second_out,
                       int64_t count) {
  HWY_DYNAMIC_DISPATCH(rotate_halves_f32)
  (first, second, cosine, sine, inverse, first_out, second_out, count);
}

void rotate_pairs_f32(const float* x, const float* cosine, const float* sine, bool inverse,
                      float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(rotate_pairs_f32)(x, cosine, sine, inverse, y, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
