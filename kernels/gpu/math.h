// SPDX-License-Identifier: Apache-2.0
// The functions of real numbers in both precisions, under the same names.
#ifndef KEEL_KERNELS_GPU_MATH_H_
#define KEEL_KERNELS_GPU_MATH_H_

#include "kernels/gpu/gelu.h"
#include "kernels/gpu/sigmoid.h"
#include "kernels/gpu/simt.h"

namespace keel::simt {

#define KEEL_SIMT_MATH(name, f32_name, f64_name)  \
  KEEL_SIMT_FUNCTION float name##_of(float x) {   \
    return f32_name(x);                           \
  }                                               \
  KEEL_SIMT_FUNCTION double name##_of(double x) { \
    return f64_name(x);                           \
  }
KEEL_SIMT_MATH(abs, fabsf, fabs)
KEEL_SIMT_MATH(floor, floorf, floor)
KEEL_SIMT_MATH(ceil, ceilf, ceil)
KEEL_SIMT_MATH(round, rintf, rint)
KEEL_SIMT_MATH(trunc, truncf, trunc)
KEEL_SIMT_MATH(sqrt, sqrtf, sqrt)
KEEL_SIMT_MATH(exp, expf, exp)
KEEL_SIMT_MATH(exp2, exp2f, exp2)
KEEL_SIMT_MATH(expm1, expm1f, expm1)
KEEL_SIMT_MATH(log, logf, log)
KEEL_SIMT_MATH(log2, log2f, log2)
KEEL_SIMT_MATH(log1p, log1pf, log1p)
KEEL_SIMT_MATH(sin, sinf, sin)
KEEL_SIMT_MATH(cos, cosf, cos)
KEEL_SIMT_MATH(tanh, tanhf, tanh)
KEEL_SIMT_MATH(erf, erff, erf)
#undef KEEL_SIMT_MATH

KEEL_SIMT_FUNCTION float pow_of(float a, float b) {
  return powf(a, b);
}
KEEL_SIMT_FUNCTION double pow_of(double a, double b) {
  return pow(a, b);
}
KEEL_SIMT_FUNCTION float fmod_of(float a, float b) {
  return fmodf(a, b);
}
KEEL_SIMT_FUNCTION double fmod_of(double a, double b) {
  return fmod(a, b);
}
KEEL_SIMT_FUNCTION float atan2_of(float a, float b) {
  return atan2f(a, b);
}
KEEL_SIMT_FUNCTION double atan2_of(double a, double b) {
  return atan2(a, b);
}

KEEL_SIMT_FUNCTION float sigmoid_of(float x) {
  return sigmoid(x).value;
}
KEEL_SIMT_FUNCTION double sigmoid_of(double x) {
  return 1 / (1 + exp(-x));
}

// From here on down e^x is 0 or subnormal, and x e^x is flushed: infinity times 0 is avoided.
constexpr double kExponentEnd = 708.0;

KEEL_SIMT_FUNCTION float silu_of(float x) {
  return silu(x);
}
KEEL_SIMT_FUNCTION double silu_of(double x) {
  return x < -kExponentEnd ? 0 : x / (1 + exp(-x));
}
KEEL_SIMT_FUNCTION float silu_slope_of(float x) {
  return x == x ? silu_slope(x, sigmoid(x)) : x;
}
KEEL_SIMT_FUNCTION double silu_slope_of(double x) {
  if (x < -kExponentEnd) return 0;
  if (x > kExponentEnd) return 1;
  const double exponential = exp(-x);
  const double s = 1 / (1 + exponential);
  return s * (1 + x * exponential * s);
}

// By the error function. erfc keeps the digits of the lower tail.
KEEL_SIMT_FUNCTION float gelu_of_erf(float x) {
  return gelu_by_erf(x);
}
KEEL_SIMT_FUNCTION double gelu_of_erf(double x) {
  constexpr double kEnd = 38.5;  // beyond, the distribution function is 0 or subnormal
  return x < -kEnd ? 0 : 0.5 * x * erfc(-0.70710678118654752440 * x);
}
KEEL_SIMT_FUNCTION float gelu_slope_of_erf(float x) {
  return gelu_by_erf_slope(x);
}
KEEL_SIMT_FUNCTION double gelu_slope_of_erf(double x) {
  constexpr double kEnd = 38.5;
  if (x < -kEnd) return 0;
  if (x > kEnd) return 1;
  return 0.5 * erfc(-0.70710678118654752440 * x) + 0.39894228040143267794 * x * exp(-0.5 * x * x);
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_MATH_H_
