// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_activation.cc"
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

// 0.5 x (1 + tanh(u)) = x sigmoid(t) with t = 2u = x (kA + kB x^2), which has no
// cancellation. kA = 2 sqrt(2/pi), kB = 0.044715 kA, each split in two floats.
constexpr float kA = 1.5957691669464111f;
constexpr float kARest = -4.53406803e-8f;
constexpr float kB = 0.07135481387376785f;
constexpr float kBRest = 2.39883240e-9f;
// Just below kLowest exp(-t) leaves the range of float; the results there, below 1e-37, are
// returned as 0.
constexpr float kLowest = -10.05f;

// exp(-t) for t of |x|, after clamping |x|. t reaches 88 within the bounds, and a relative error of
// 2^-24 in t would be an error of 88 * 2^-24 in the result; so t is carried as high + low, the low
// part from the error terms of the fused products.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_minus_t(D d, V x) {
  const V a = hn::Set(d, kA);
  const V b = hn::Set(d, kB);
  const V bounded = hn::Clamp(x, hn::Set(d, kLowest), hn::Set(d, -kLowest));
  const V square = hn::Mul(bounded, bounded);
  const V square_rest = hn::MulSub(bounded, bounded, square);
  const V product = hn::Mul(b, square);
  const V product_rest = hn::MulAdd(hn::Set(d, kBRest), square,
                                    hn::MulAdd(b, square_rest, hn::MulSub(b, square, product)));
  // Two-sum of a and product, regardless of the larger one.
  const V factor = hn::Add(a, product);
  const V virtual_product = hn::Sub(factor, a);
  const V factor_rest = hn::Add(
      hn::Add(hn::Sub(a, hn::Sub(factor, virtual_product)), hn::Sub(product, virtual_product)),
      hn::Add(product_rest, hn::Set(d, kARest)));
  const V high = hn::Mul(bounded, factor);
  const V low = hn::MulAdd(bounded, factor_rest, hn::MulSub(bounded, factor, high));
  const V exponential = exp_in_range(d, hn::Neg(high));
  return hn::NegMulAdd(exponential, low, exponential);  // exp(-high) (1 - low)
}

// NaN passes through: comparisons with NaN are false.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V value) {
  const V result = hn::Div(value, hn::Add(hn::Set(d, 1.0f), exp_minus_t(d, value)));
  return hn::IfThenZeroElse(hn::Lt(value, hn::Set(d, kLowest)), result);
}

// d/dx x s(t) = s (1 + x (1 - s) t'), where s = 1 / (1 + e) and 1 - s = e s.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_slope(D d, V value) {
  const auto one = hn::Set(d, 1.0f);
  // 1 - s is 0 beyond the upper bound; clamping x there changes nothing but avoids infinity times
  // 0.
  const auto bounded = hn::Min(value, hn::Set(d, -kLowest));
  const auto exponential = exp_minus_t(d, value);
  const auto sigmoid = hn::Div(one, hn::Add(one, exponential));
  const auto rest = hn::Mul(exponential, sigmoid);
  const auto t_slope = hn::MulAdd(hn::Mul(bounded, bounded), hn::Set(d, 3.0f * kB), hn::Set(d, kA));
  auto slope = hn::Mul(sigmoid, hn::MulAdd(hn::Mul(bounded, rest), t_slope, one));
  slope = hn::IfThenZeroElse(hn::Lt(value, hn::Set(d, kLowest)), slope);
  return hn::IfThenElse(hn::IsNaN(value), value, slope);
}

// ---- gelu by erf

// Beyond +-kTail, exp(-t^2/2) leaves the normal numbers of float32, and the distribution function
// is 0 or 1.
constexpr float kTail = 13.2f;

// The normal distribution function of t, with a relative error of 4e-7 in both tails, and the
// density exp(-t^2/2), unscaled. The upper tail is the density times Mills' ratio, which is smooth
// in k = 1 / (1 + 0.35 |t|): k times the polynomial that interpolates the ratio at Chebyshev's
// points, within 4e-8. The square is carried with its rounding error, which the exponential would
// multiply by up to 87.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V normal_distribution(D d, V t, V* out_density) {
  const V one = hn::Set(d, 1.0f);
  const V size = hn::Min(hn::Abs(t), hn::Set(d, kTail));
  const V square = hn::Mul(size, size);
  const V square_rest = hn::MulSub(size, size, square);
  const V half = hn::Set(d, 0.5f);
  const V exponential = exp_in_range(d, hn::Neg(hn::Mul(half, square)));
  const V density = hn::NegMulAdd(hn::Mul(half, exponential), square_rest, exponential);
  const V k = hn::Div(one, hn::MulAdd(hn::Set(d, 0.35f), size, one));
  V series = hn::Set(d, -0.02886442924f);
  series = hn::MulAdd(series, k, hn::Set(d, 0.14268861073f));
  series = hn::MulAdd(series, k, hn::Set(d, -0.25325383941f));
  series = hn::MulAdd(series, k, hn::Set(d, 0.15659268007f));
  series = hn::MulAdd(series, k, hn::Set(d, -0.02149599317f));
  series = hn::MulAdd(series, k, hn::Set(d, 0.10489490570f));
  series = hn::MulAdd(series, k, hn::Set(d, 0.11997067614f));
  series = hn::MulAdd(series, k, hn::Set(d, 0.13984512874f));
  series = hn::MulAdd(series, k, hn::Set(d, 0.13962224759f));
  const V tail = hn::Mul(hn::Mul(series, k), density);
  *out_density = density;
  return hn::IfThenElse(hn::Lt(t, hn::Zero(d)), tail, hn::Sub(one, tail));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_by_erf(D d, V t) {
  V density;
  const V distribution = normal_distribution(d, t, &density);
  // Avoids infinity times 0.
  const V result = hn::Mul(t, distribution);
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -kTail)), result);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_by_erf_slope(D d, V t) {
  V density;
  const V distribution = normal_distribution(d, t, &density);
  const V bounded = hn::Clamp(t, hn::Set(d, -kTail), hn::Set(d, kTail));
  const V scaled = hn::Mul(bounded, hn::Set(d, 0.3989422804f));
  return hn::IfThenElse(hn::IsNaN(t), t, hn::MulAdd(scaled, density, distribution));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V biased(D d, const float* x, const float* bias, int64_t i) {
  const V value = hn::LoadU(d, x + i);
  return bias == nullptr ? value : hn::Add(value, hn::LoadU(d, bias + i));
}

void bias_gelu_f32(bool erf, const float* x, const float* bias, float* y, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = biased(d, x, bias, i);
    hn::StoreU(erf ? gelu_by_erf(d, t) : gelu(d, t), d, y + i);
  });
}

void bias_gelu_backward_f32(bool erf, const float* x, const float* bias, const float* dy, float* dx,
                            int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = biased(d, x, bias, i);
    const auto slope = erf ? gelu_by_erf_slope(d, t) : gelu_slope(d, t);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), slope), d, dx + i);
  });
}

// ---- clamp

void clamp_f32(const float* x, float low, float high, float* y, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = hn::LoadU(d, x + i);
    const auto lower = hn::Set(d, low);
    const auto upper = hn::Set(d, high);
    // Comparisons with NaN are false.
    const auto raised = hn::IfThenElse(hn::Lt(t, lower), lower, t);
    hn::StoreU(hn::IfThenElse(hn::Gt(raised, upper), upper, raised), d, y + i);
  });
}

void clamp_backward_f32(const float* x, const float* dy, float low, float high, float* dx,
                        int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = hn::LoadU(d, x + i);
    const auto outside = hn::Or(hn::Lt(t, hn::Set(d, low)), hn::Gt(t, hn::Set(d, high)));
    const auto cut = hn::Or(outside, hn::IsNaN(t));
    hn::StoreU(hn::IfThenZeroElse(cut, hn::LoadU(d, dy + i)), d, dx + i);
  });
}

// ---- swiglu

// exp(-t), clamped just below the largest float: 1 / (1 + exp(-t)) is then still a normal number or
// the neighbour of one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_minus(D d, V t) {
  return exp_in_range(d, hn::Neg(hn::Clamp(t, hn::Set(d, -88.0f), hn::Set(d, 88.0f))));
}

// 0 where the clamp of exp_minus would make the result too large.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V t, V exponential) {
  const V one = hn::Set(d, 1.0f);
  const V result =
      hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -88.0f)), hn::Div(one, hn::Add(one, exponential)));
  return hn::IfThenElse(hn::IsNaN(t), t, result);
}

// Avoids infinity times 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V t, V s) {
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -88.0f)), hn::Mul(t, s));
}

void swiglu_f32(const float* gate, const float* up, float* y, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = hn::LoadU(d, gate + i);
    const auto s = sigmoid(d, t, exp_minus(d, t));
    hn::StoreU(hn::Mul(silu(d, t, s), hn::LoadU(d, up + i)), d, y + i);
  });
}

void silu_f32(const float* x, float* y, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = hn::LoadU(d, x + i);
    hn::StoreU(silu(d, t, sigmoid(d, t, exp_minus(d, t))), d, y + i);
  });
}

// silu'(t) = s (1 + t (1 - s)), where 1 - s = exp(-t) s has no cancellation. t is clamped like
// exp(-t), which avoids infinity times 0.
void swiglu_backward_f32(const float* gate, const float* up, const float* dy, float* dgate,
                         float* dup, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto t = hn::LoadU(d, gate + i);
    const auto u = hn::LoadU(d, up + i);
    const auto gradient = hn::LoadU(d, dy + i);
    const auto exponential = exp_minus(d, t);
    const auto s = sigmoid(d, t, exponential);
    const auto rest = hn::Mul(exponential, s);
    const auto held = hn::Clamp(t, hn::Set(d, -88.0f), hn::Set(d, 88.0f));
    const auto slope = hn::Mul(s, hn::MulAdd(held, rest, hn::Set(d, 1.0f)));
    hn::StoreU(hn::Mul(hn::Mul(gradient, u), slope), d, dgate + i);
    hn::StoreU(hn::Mul(gradient, silu(d, t, s)), d, dup + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(bias_gelu_f32);
HWY_EXPORT(bias_gelu_backward_f32);
HWY_EXPORT(clamp_f32);
HWY_EXPORT(clamp_backward_f32);
HWY_EXPORT(silu_f32);
HWY_EXPORT(swiglu_f32);
HWY_EXPORT(swiglu_backward_f32);

void bias_gelu_f32(bool erf, const float* x, const float* bias, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(bias_gelu_f32)(erf, x, bias, y, count);
}

void bias_gelu_backward_f32(bool erf, const float* x, const float* bias, const float* dy, float* dx,
                            int64_t count) {
  HWY_DYNAMIC_DISPATCH(bias_gelu_backward_f32)(erf, x, bias, dy, dx, count);
}

void clamp_f32(const float* x, float low, float high, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(clamp_f32)(x, low, high, y, count);
}

void clamp_backward_f32(const float* x, const float* dy, float low, float high, float* dx,
                        int64_t count) {
  HWY_DYNAMIC_DISPATCH(clamp_backward_f32)(x, dy, low, high, dx, count);
}

void silu_f32(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(silu_f32)(x, y, count);
}

void swiglu_f32(const float* gate, const float* up, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(swiglu_f32)(gate, up, y, count);
}

void swiglu_backward_f32(const float* gate, const float* up, const float* dy, float* dgate,
                         float* dup, int64_t count) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward_f32)(gate, up, dy, dgate, dup, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
