// SPDX-License-Identifier: Apache-2.0
// The logistic function, and silu.
#ifndef KEEL_KERNELS_GPU_SIGMOID_H_
#define KEEL_KERNELS_GPU_SIGMOID_H_

#include "kernels/gpu/simt.h"

namespace keel::simt {

// The clamp of t: e^-t overflows just below -kSigmoidEnd, and 1 + e^-t absorbs e^-t just above
// kSigmoidEnd.
constexpr float kSigmoidEnd = 88.0F;

// 1 / (1 + e^-t), and e^-t, both clamped: a caller that multiplies by t must clamp t, too.
struct Sigmoid {
  float value;
  float exponential;
};

// Flushes a sigmoid under 2^-127 to 0.
KEEL_SIMT_FUNCTION Sigmoid sigmoid(float t) {
  if (!(t == t)) return {t, t};
  const float exponential = expf(-fminf(fmaxf(t, -kSigmoidEnd), kSigmoidEnd));
  return {t < -kSigmoidEnd ? 0.0F : 1 / (1 + exponential), exponential};
}

// |s| is sigmoid(t).
KEEL_SIMT_FUNCTION float silu(float t, const Sigmoid& s) {
  return t < -kSigmoidEnd ? 0 : t * s.value;  // avoids infinity times 0
}
KEEL_SIMT_FUNCTION float silu(float t) {
  return silu(t, sigmoid(t));
}

// s (1 + t (1 - s)), where 1 - s = e^-t s avoids cancellation.
KEEL_SIMT_FUNCTION float silu_slope(float t, const Sigmoid& s) {
  const float held = fminf(fmaxf(t, -kSigmoidEnd), kSigmoidEnd);
  return s.value * fmaf(held, s.exponential * s.value, 1.0F);
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_SIGMOID_H_
