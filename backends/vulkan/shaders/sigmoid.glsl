// SPDX-License-Identifier: Apache-2.0
// The logistic function and e^-t, and silu; includes of math.glsl come first.

// Where e^-t is given as 0, and a sigmoid.
const float kSigmoidEnd = 87.0;

struct Sigmoid {
  float value;
  float exponential;
};

// One under 2^-125 is given as 0: quotients by more than 2^126 have no digits to count on.
Sigmoid sigmoid(float t) {
  const float exponential = exact_exp(-t);
  return Sigmoid(t < -kSigmoidEnd ? 0.0 : 1.0 / (1.0 + exponential), exponential);
}

// 0 at the lower end, which spares an infinity times 0. |s| is t's.
float silu(float t, Sigmoid s) {
  return t < -kSigmoidEnd ? 0.0 : t * s.value;
}
float silu(float t) {
  return t < -kSigmoidEnd ? 0.0 : t * (1.0 / (1.0 + exact_exp(-t)));
}

// s (1 + t (1 - s)), where 1 - s = e^-t s has no cancellation and is 0 beyond the ends.
float silu_slope(float t, Sigmoid s) {
  if (isnan(t)) return t;
  const float held = clamp(t, -kSigmoidEnd, kSigmoidEnd);
  return s.value * fma(held, s.exponential * s.value, 1.0);
}
