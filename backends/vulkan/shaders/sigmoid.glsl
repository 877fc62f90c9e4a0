// SPDX-License-Identifier: Apache-2.0
// The logistic function and e^-t; includes of math.glsl come first.
struct Sigmoid {
  float value;
  float exponential;
};

// One under 2^-125 is given as 0: quotients by more than 2^126 have no digits to count on, and
// nothing is an infinity times 0.
Sigmoid sigmoid(float t) {
  const float exponential = exact_exp(-t);
  return Sigmoid(t < -87.0 ? 0.0 : 1.0 / (1.0 + exponential), exponential);
}
