// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_elementwise.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <keel/float_types.hpp>

#include "backends/cpu/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

void add_f32(const float* a, const float* b, float* c, int64_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, c + i);
  }
  for (; i < count; ++i) c[i] = a[i] + b[i];
}

void scale_f32(const float* x, float alpha, float* y, int64_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, alpha);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, x + i)), d, y + i);
  }
  for (; i < count; ++i) y[i] = alpha * x[i];
}

// Fused operations process tails as a partial vector, so that an element has the same bits wherever
// a piece ends.
void axpy_f32(const float* x, float alpha, const float* y, float* out, int64_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, alpha);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(hn::MulAdd(hn::Set(one, alpha), hn::LoadU(one, x + i), hn::LoadU(one, y + i)), one,
               out + i);
  }
}

// Plain loops over the conversions of float_types.hpp, which the compiler vectorises for bfloat16;
// float16 arithmetic takes the slow path.
template <typename Element, typename Round>
HWY_INLINE void add_16_as(const Element* a, const Element* b, Element* c, int64_t count,
                          Round round) {
  for (int64_t i = 0; i < count; ++i) c[i] = round(to_float(a[i]) + to_float(b[i]));
}

void add_16(keel_dtype dtype, const void* a, const void* b, void* c, int64_t count) {
  if (dtype == KEEL_BFLOAT16) {
    add_16_as(static_cast<const bfloat16_t*>(a), static_cast<const bfloat16_t*>(b),
              static_cast<bfloat16_t*>(c), count, to_bfloat16);
  } else {
    add_16_as(static_cast<const float16_t*>(a), static_cast<const float16_t*>(b),
              static_cast<float16_t*>(c), count, to_float16);
  }
}

template <typename Element, typename Round>
HWY_INLINE void scale_16_as(const Element* x, float alpha, Element* y, int64_t count, Round round) {
  for (int64_t i = 0; i < count; ++i) y[i] = round(alpha * to_float(x[i]));
}

void scale_16(keel_dtype dtype, const void* x, float alpha, void* y, int64_t count) {
  if (dtype == KEEL_BFLOAT16) {
    scale_16_as(static_cast<const bfloat16_t*>(x), alpha, static_cast<bfloat16_t*>(y), count,
                to_bfloat16);
  } else {
    scale_16_as(static_cast<const float16_t*>(x), alpha, static_cast<float16_t*>(y), count,
                to_float16);
  }
}

void axpy_bf16(const void* x, float alpha, const float* y, float* out, int64_t count) {
  const auto* const from = static_cast<const bfloat16_t*>(x);
  for (int64_t i = 0; i < count; ++i) out[i] = alpha * to_float(from[i]) + y[i];
}

template <class D>
HWY_INLINE void adamw_step(D d, const AdamwFactors& f, const float* p, const float* g,
                           const float* m, const float* v, float* p_out, float* m_out,
                           float* v_out) {
  const auto gradient = hn::Mul(hn::LoadU(d, g), hn::Set(d, f.grad_scale));
  const auto mean = hn::MulAdd(hn::Set(d, f.beta1), hn::LoadU(d, m),
                               hn::Mul(hn::Set(d, f.one_minus_beta1), gradient));
  const auto square =
      hn::MulAdd(hn::Set(d, f.beta2), hn::LoadU(d, v),
                 hn::Mul(hn::Set(d, f.one_minus_beta2), hn::Mul(gradient, gradient)));
  const auto root =
      hn::Add(hn::Sqrt(hn::Mul(square, hn::Set(d, f.v_correction))), hn::Set(d, f.epsilon));
  const auto parameter = hn::LoadU(d, p);
  const auto update = hn::MulAdd(hn::Set(d, f.weight_decay), parameter,
                                 hn::Div(hn::Mul(mean, hn::Set(d, f.m_correction)), root));
  hn::StoreU(hn::NegMulAdd(hn::Set(d, f.learning_rate), update, parameter), d, p_out);
  hn::StoreU(mean, d, m_out);
  hn::StoreU(square, d, v_out);
}

void adamw_f32(const AdamwFactors& factors, const float* p, const float* g, const float* m,
               const float* v, float* p_out, float* m_out, float* v_out, int64_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    adamw_step(d, factors, p + i, g + i, m + i, v + i, p_out + i, m_out + i, v_out + i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    adamw_step(one, factors, p + i, g + i, m + i, v + i, p_out + i, m_out + i, v_out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(add_f32);
HWY_EXPORT(scale_f32);
HWY_EXPORT(axpy_f32);
HWY_EXPORT(add_16);
HWY_EXPORT(scale_16);
HWY_EXPORT(axpy_bf16);
HWY_EXPORT(adamw_f32);

const char* architecture() {
  const int64_t target = hwy::SupportedTargets() & -hwy::SupportedTargets();  // the best one
  if (target <= HWY_AVX3) return "avx512";
  return target <= HWY_AVX2 ? "avx2" : "generic";
}

void add_f32(const float* a, const float* b, float* c, int64_t count) {
  HWY_DYNAMIC_DISPATCH(add_f32)(a, b, c, count);
}

void scale_f32(const float* x, float alpha, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scale_f32)(x, alpha, y, count);
}

void axpy_f32(const float* x, float alpha, const float* y, float* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(axpy_f32)(x, alpha, y, out, count);
}

void add_16(keel_dtype dtype, const void* a, const void* b, void* c, int64_t count) {
  HWY_DYNAMIC_DISPATCH(add_16)(dtype, a, b, c, count);
}

void scale_16(keel_dtype dtype, const void* x, float alpha, void* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scale_16)(dtype, x, alpha, y, count);
}

void axpy_bf16(const void* x, float alpha, const float* y, float* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(axpy_bf16)(x, alpha, y, out, count);
}

void adamw_f32(const AdamwFactors& factors, const float* p, const float* g, const float* m,
               const float* v, float* p_out, float* m_out, float* v_out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(adamw_f32)(factors, p, g, m, v, p_out, m_out, v_out, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
