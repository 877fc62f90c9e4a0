// SPDX-License-Identifier: Apache-2.0
// Functions of elementwise on float32 that have vectors of their own, within 4 units in the last
// place or, of sin, cos and exp2, some 2^-24 (1 + |a|).
// Included by kernels_family_f32.cc after <hwy/highway.h>, once per instruction set.
#if defined(KEEL_BACKENDS_CPU_KERNELS_FLOAT_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_FLOAT_FUNCTIONS_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_FLOAT_FUNCTIONS_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_FLOAT_FUNCTIONS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "backends/cpu/kernels/exp-inl.h"
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/functions-inl.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y = function(d, a) where a vector's elements are all in [low, high], else one by one by
// |scalar|, which takes any number.
template <class Function, class Scalar>
HWY_INLINE void each_within(const Arguments<float>& of, float low, float high,
                            const Function& function, const Scalar& scalar) {
  const float* const a = of.a;
  float* const y = of.y;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= of.count; i += lanes) {
    const auto value = hn::LoadU(d, a + i);
    const auto is_within = hn::And(hn::Ge(value, hn::Set(d, low)), hn::Le(value, hn::Set(d, high)));
    if (hn::AllTrue(d, is_within)) {
      hn::StoreU(function(d, value), d, y + i);
    } else {
      for (int64_t j = i; j < i + lanes; ++j) y[j] = scalar(a[j]);
    }
  }
  for (; i < of.count; ++i) y[i] = scalar(a[i]);
}

// y = a + b * n for pairs of words. False where the elements do not begin with a pair.
HWY_INLINE bool apply_normal(const Arguments<float>& of) {
  if (of.first % 2 != 0) return false;
  const uint32_t* const words = of.words + of.first % 4;
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> bits;
  const hn::RebindToSigned<decltype(d)> integers;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kMost = 2 * hn::MaxLanes(d);
  for (int64_t i = 0; i < of.count; i += 2 * lanes) {
    hn::Vec<decltype(bits)> first, second;
    hn::LoadInterleaved2(bits, words + i, first, second);
    const auto uniform = [&](auto word) HWY_ATTR {
      const auto upper = hn::BitCast(integers, hn::ShiftRight<8>(word));
      return hn::Mul(hn::ConvertTo(d, upper), hn::Set(d, 0x1p-24f));
    };
    // 1 - u is exact.
    const auto logarithm = hn::Log(d, hn::Sub(hn::Set(d, 1.0f), uniform(first)));
    const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), logarithm));
    const auto angle = hn::Mul(hn::Set(d, 0x1.921fb6p2f), uniform(second));
    HWY_ALIGN float normal[kMost];
    hn::StoreInterleaved2(hn::Mul(radius, hn::Cos(d, angle)), hn::Mul(radius, hn::Sin(d, angle)), d,
                          normal);
    const int64_t end = std::min(of.count - i, 2 * lanes);
    for (int64_t j = 0; j < end; ++j) of.y[i + j] = of.a[i + j] + of.b[i + j] * normal[j];
  }
  return true;
}

#define KEEL_CASE(NAME, LOW, HIGH, VECTOR, SCALAR)                     \
  case KEEL_ELEMENTWISE_FUNCTION_##NAME:                               \
    each_within(                                                       \
        of, LOW, HIGH, [](auto d, auto v) HWY_ATTR { return VECTOR; }, \
        [](float v) HWY_ATTR { return SCALAR; });                      \
    return true;

// False for functions without vectors of their own.
inline bool apply_vectors(const Arguments<float>& of) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  constexpr float kMost = std::numeric_limits<float>::max();
  const float* const a = of.a;
  float* const y = of.y;
  switch (of.function) {
    KEEL_CASE(EXP2, -125, 127, exp_in_range(d, hn::Mul(v, hn::Set(d, 0x1.62e43p-1f))), std::exp2(v))
    KEEL_CASE(EXPM1, -87, 87, hn::Expm1(d, v), std::expm1(v))
    KEEL_CASE(LOG, kLeast, kMost, hn::Log(d, v), std::log(v))
    KEEL_CASE(LOG2, kLeast, kMost, hn::Log2(d, v), std::log2(v))
    KEEL_CASE(LOG1P, -0.9f, 1e30f, hn::Log1p(d, v), std::log1p(v))
    KEEL_CASE(SIN, -1000, 1000, hn::Sin(d, v), std::sin(v))
    KEEL_CASE(COS, -1000, 1000, hn::Cos(d, v), std::cos(v))
    KEEL_CASE(TANH, -40, 40, hn::Tanh(d, v), std::tanh(v))
    case KEEL_ELEMENTWISE_FUNCTION_EXP:
      for_each_vector(of.count, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(exp(d, hn::LoadU(d, a + i)), d, y + i);
      });
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_SIGMOID:
      for_each_vector(of.count, [=](auto d, int64_t i) HWY_ATTR {
        const auto one = hn::Set(d, 1.0f);
        const auto power = exp(d, hn::Neg(hn::LoadU(d, a + i)));
        hn::StoreU(hn::Div(one, hn::Add(one, power)), d, y + i);
      });
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_SILU:
      silu_f32(a, y, of.count);
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_GELU:
      bias_gelu_f32(/*erf=*/true, a, nullptr, y, of.count);
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_GELU_BACKWARD:
      bias_gelu_backward_f32(/*erf=*/true, of.b, nullptr, a, y, of.count);
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_NORMAL:
      return apply_normal(of);
    default:
      return false;
  }
}

#undef KEEL_CASE

inline void apply_f32(const Arguments<float>& of) {
  if (!apply_vectors(of)) apply_floats(of);
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_FLOAT_FUNCTIONS_INL_H_
