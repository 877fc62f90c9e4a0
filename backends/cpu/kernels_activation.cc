#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels_activation.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "backends/cpu/kernels.h"

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
// Just below it exp(-t) leaves the range of float; the results there, under 1e-37,
// are given as 0.
constexpr float kLowest = -10.05f;

// exp(-t) for t of |x|, which is bounded first. t reaches 88 within the bounds, and
// a relative error of 2^-24 in t would be one of 88 * 2^-24 in the result; so t is
// carried as high + low, the low part from the error terms of the fused products.
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
  // Two-sum of a and product, whichever is larger.
  const V factor = hn::Add(a, product);
  const V virtual_product = hn::Sub(factor, a);
  const V factor_rest = hn::Add(
      hn::Add(hn::Sub(a, hn::Sub(factor, virtual_product)), hn::Sub(product, virtual_product)),
      hn::Add(product_rest, hn::Set(d, kARest)));
  const V high = hn::Mul(bounded, factor);
  const V low = hn::MulAdd(bounded, factor_rest, hn::MulSub(bounded, factor, high));
  const V exponential = hn::Exp(d, hn::Neg(high));
  return hn::NegMulAdd(exponential, low, exponential);  // exp(-high) (1 - low)
}

// A NaN passes through: comparisons with it are false.
template <class D>
HWY_INLINE void gelu_step(D d, const float* x, float* y) {
  const auto value = hn::LoadU(d, x);
  const auto result = hn::Div(value, hn::Add(hn::Set(d, 1.0f), exp_minus_t(d, value)));
  hn::StoreU(hn::IfThenZeroElse(hn::Lt(value, hn::Set(d, kLowest)), result), d, y);
}

// d/dx x s(t) = s (1 + x (1 - s) t'), where s = 1 / (1 + e) and 1 - s = e s.
template <class D>
HWY_INLINE void gelu_backward_step(D d, const float* x, const float* dy, float* dx) {
  const auto value = hn::LoadU(d, x);
  const auto one = hn::Set(d, 1.0f);
  // 1 - s is 0 beyond the upper bound, so that bounding x there changes nothing
  // but spares an infinity times 0.
  const auto bounded = hn::Min(value, hn::Set(d, -kLowest));
  const auto exponential = exp_minus_t(d, value);
  const auto sigmoid = hn::Div(one, hn::Add(one, exponential));
  const auto rest = hn::Mul(exponential, sigmoid);
  const auto t_slope = hn::MulAdd(hn::Mul(bounded, bounded), hn::Set(d, 3.0f * kB), hn::Set(d, kA));
  auto slope = hn::Mul(sigmoid, hn::MulAdd(hn::Mul(bounded, rest), t_slope, one));
  slope = hn::IfThenZeroElse(hn::Lt(value, hn::Set(d, kLowest)), slope);
  slope = hn::IfThenElse(hn::IsNaN(value), value, slope);
  hn::StoreU(hn::Mul(hn::LoadU(d, dy), slope), d, dx);
}

void gelu_f32(const float* x, float* y, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) gelu_step(d, x + i, y + i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) gelu_step(one, x + i, y + i);
}

void gelu_backward_f32(const float* x, const float* dy, float* dx, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) gelu_backward_step(d, x + i, dy + i, dx + i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) gelu_backward_step(one, x + i, dy + i, dx + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(gelu_f32);
HWY_EXPORT(gelu_backward_f32);

void gelu_f32(const float* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_f32)(x, y, count);
}

void gelu_backward_f32(const float* x, const float* dy, float* dx, int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_f32)(x, dy, dx, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
