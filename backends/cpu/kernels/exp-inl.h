// SPDX-License-Identifier: Apache-2.0
// e^x of float32 for kernels that are compiled once per instruction set. Included by their sources
// after <hwy/highway.h>.
#if defined(KEEL_BACKENDS_CPU_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_EXP_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_EXP_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^x with a relative error of at most 1.4 x 2^-24; NaN stays NaN. Below -87.33, where float32 has
// only subnormals, the result is 0. Requires x <= 88.72, beyond which e^x overflows. 17
// instructions; Highway's Exp takes 30 and returns 0 for NaN. Sums of exponentials are 1.7 to 2.3
// times as fast.
//
// e^x = 2^n e^r with n the integer next to x / ln 2, |r| <= ln 2 / 2, and e^r = 1 + r + r^2 q(r).
// The polynomial q of degree 4 minimises the largest relative error of e^r, 2^-28.2 (least squares,
// reweighted until all extremes were equal).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_in_range(D d, V x) {
  const hn::RebindToSigned<D> integers;
  // Adding 1.5 x 2^23 rounds to an integer, held in the lowest bits.
  const V shift = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p0f), shift);
  const V n = hn::Sub(shifted, shift);
  // ln 2 in two parts: n times the first part is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  const V square = hn::Mul(r, r);
  const V low = hn::MulAdd(hn::Set(d, 0x1.55549p-3f), r, hn::Set(d, 0x1.fffffcp-2f));
  const V middle = hn::MulAdd(hn::Set(d, 0x1.123b9cp-7f), r, hn::Set(d, 0x1.5558fcp-5f));
  const V q = hn::MulAdd(hn::MulAdd(hn::Set(d, 0x1.6a215ap-10f), square, middle), square, low);
  const V power = hn::Add(hn::MulAdd(q, square, r), hn::Set(d, 1.0f));
  // Multiplies by 2^n by adding n to the exponent.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, shifted));
  const V result = hn::BitCast(d, hn::Add(hn::BitCast(integers, power), exponent));
  const V lowest = hn::Set(d, -87.33f);
  const V otherwise = hn::IfThenZeroElse(hn::Lt(x, lowest), x);  // 0, or NaN
  return hn::IfThenElse(hn::Ge(x, lowest), result, otherwise);
}

// Like exp_in_range, for any x: returns infinity beyond 88.72.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 0x1.62e42ep6f)), infinity, exp_in_range(d, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_EXP_INL_H_
