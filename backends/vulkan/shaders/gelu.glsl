// SPDX-License-Identifier: Apache-2.0
// GELU's tanh form as x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): equal to
// x/2 (1 + tanh u), without the cancellation of 1 + tanh for negative x.
const float kGeluScale = 1.5957691216057308;  // 2 sqrt(2/pi)
const float kGeluCubic = 0.044715;

// e^(-2u), held below overflow.
float gelu_exponential(float x) {
  const float twice_u = kGeluScale * fma(kGeluCubic * x * x, x, x);
  return exact_exp(-twice_u);
}
