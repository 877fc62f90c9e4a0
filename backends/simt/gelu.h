// gelu's tanh form and its slope.
#ifndef KEEL_BACKENDS_SIMT_GELU_H_
#define KEEL_BACKENDS_SIMT_GELU_H_

#include "backends/simt/simt.h"

namespace keel::simt {

// The tanh form as x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the same as
// x/2 (1 + tanh u), without the cancellation of 1 + tanh for negative x.
constexpr float kGeluScale = 1.5957691216057308F;  // 2 sqrt(2/pi)
constexpr float kGeluCubic = 0.044715F;
// Below it the result, under 1e-37, is given as 0.
constexpr float kGeluLowest = -10.05F;

// e^(-2u), held below overflow.
KEEL_SIMT_FUNCTION float gelu_exponential(float x) {
  const float bounded = fminf(fmaxf(x, kGeluLowest), -kGeluLowest);
  const float twice_u = kGeluScale * fmaf(kGeluCubic * bounded * bounded, bounded, bounded);
  return expf(-twice_u);
}

KEEL_SIMT_FUNCTION float gelu_of(float x) {
  if (x < kGeluLowest) return 0;
  return x / (1 + gelu_exponential(x));  // NaN stays NaN
}

// d/dx x s = s (1 + x (1 - s) (2u)'), where s = 1 / (1 + e) and 1 - s = e s.
KEEL_SIMT_FUNCTION float gelu_slope(float x) {
  if (x < kGeluLowest) return 0;
  if (!(x == x)) return x;
  // 1 - s is 0 beyond the bound: bounding x there spares an infinity times 0.
  const float bounded = fminf(x, -kGeluLowest);
  const float exponential = gelu_exponential(x);
  const float sigmoid = 1 / (1 + exponential);
  const float slope = fmaf(3 * kGeluCubic * kGeluScale, bounded * bounded, kGeluScale);
  return sigmoid * fmaf(bounded * exponential * sigmoid, slope, 1.0F);
}

}  // namespace keel::simt

#endif  // KEEL_BACKENDS_SIMT_GELU_H_
