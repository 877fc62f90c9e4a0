// SPDX-License-Identifier: Apache-2.0
// The logistic function, and silu.
#ifndef KEEL_BACKENDS_SIMT_SIGMOID_H_
#define KEEL_BACKENDS_SIMT_SIGMOID_H_

#include "backends/simt/simt.h"

namespace keel::simt {

// 1 / (1 + e^-t), and e^-t, held below overflow.
struct Sigmoid {
  float value;
  float exponential;
};

// A sigmoid under 2^-127 is given as 0, so that nothing is an infinity times 0.
KEEL_SIMT_FUNCTION Sigmoid sigmoid(float t) {
  if (!(t == t)) return {t, t};
  const float exponential = expf(-fminf(fmaxf(t, -88.0F), 88.0F));
  return {t < -88.0F ? 0.0F : 1 / (1 + exponential), exponential};
}

KEEL_SIMT_FUNCTION float silu(float t) {
  if (t < -88.0F) return 0;  // spares an infinity times 0
  return t * sigmoid(t).value;
}

}  // namespace keel::simt

#endif  // KEEL_BACKENDS_SIMT_SIGMOID_H_
