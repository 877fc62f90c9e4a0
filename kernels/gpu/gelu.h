// SPDX-License-Identifier: Apache-2.0
// Both forms of gelu, and their derivatives.
#ifndef KEEL_KERNELS_GPU_GELU_H_
#define KEEL_KERNELS_GPU_GELU_H_

#include "kernels/gpu/simt.h"

namespace keel::simt {

// The tanh form as x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the same as
// x/2 (1 + tanh u), without the cancellation of 1 + tanh for negative x.
constexpr float kGeluScale = 1.5957691216057308F;  // 2 sqrt(2/pi)
constexpr float kGeluCubic = 0.044715F;
// Below kGeluLowest the result, under 1e-37, is flushed to 0.
constexpr float kGeluLowest = -10.05F;

// e^(-2u), clamped below overflow.
KEEL_SIMT_FUNCTION float gelu_exponential(float x) {
  const float bounded = fminf(fmaxf(x, kGeluLowest), -kGeluLowest);
  const float twice_u = kGeluScale * fmaf(kGeluCubic * bounded * bounded, bounded, bounded);
  return expf(-twice_u);
}

KEEL_SIMT_FUNCTION float gelu_of(float x) {
  if (x < kGeluLowest) return 0;
  return x / (1 + gelu_exponential(x));  // propagates NaN
}

// d/dx x s = s (1 + x (1 - s) (2u)'), where s = 1 / (1 + e) and 1 - s = e s.
KEEL_SIMT_FUNCTION float gelu_slope(float x) {
  if (x < kGeluLowest) return 0;
  if (!(x == x)) return x;
  // 1 - s is 0 beyond the bound: bounding x avoids infinity times 0.
  const float bounded = fminf(x, -kGeluLowest);
  const float exponential = gelu_exponential(x);
  const float sigmoid = 1 / (1 + exponential);
  const float slope = fmaf(3 * kGeluCubic * kGeluScale, bounded * bounded, kGeluScale);
  return sigmoid * fmaf(bounded * exponential * sigmoid, slope, 1.0F);
}

// ---- by erf

// From about |t| = kNormalTail on, e^(-t^2/2) is subnormal or 0, and the distribution function is
// within a subnormal of 0 or 1.
constexpr float kNormalTail = 13.2F;

// The normal distribution function and the unscaled density e^(-t^2/2).
struct Normal {
  float distribution;
  float density;
};

// Accurate to a few units in the last place, in both tails: the upper tail is the density times
// Mills' ratio, approximated as k = 1 / (1 + 0.35 |t|) times a polynomial of k. The square includes
// its rounding error, which the exponential would multiply by up to 87.
KEEL_SIMT_FUNCTION Normal normal(float t) {
  const float size = fminf(fabsf(t), kNormalTail);
  const float square = size * size;
  const float exponential = expf(-0.5F * square);
  const float density = fmaf(-0.5F * exponential, fmaf(size, size, -square), exponential);
  const float k = 1 / fmaf(0.35F, size, 1.0F);
  float series = -0.02886442924F;
  series = fmaf(series, k, 0.14268861073F);
  series = fmaf(series, k, -0.25325383941F);
  series = fmaf(series, k, 0.15659268007F);
  series = fmaf(series, k, -0.02149599317F);
  series = fmaf(series, k, 0.10489490570F);
  series = fmaf(series, k, 0.11997067614F);
  series = fmaf(series, k, 0.13984512874F);
  series = fmaf(series, k, 0.13962224759F);
  const float tail = series * k * density;
  return {t < 0 ? tail : 1 - tail, density};
}

KEEL_SIMT_FUNCTION float gelu_by_erf(float t) {
  if (t < -kNormalTail) return 0;  // avoids infinity times 0
  return t * normal(t).distribution;
}

KEEL_SIMT_FUNCTION float gelu_by_erf_slope(float t) {
  if (!(t == t)) return t;
  const Normal at = normal(t);
  const float bounded = fminf(fmaxf(t, -kNormalTail), kNormalTail);
  return fmaf(0.3989422804F * bounded, at.density, at.distribution);
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_GELU_H_
