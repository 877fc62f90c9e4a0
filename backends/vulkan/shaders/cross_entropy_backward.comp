// SPDX-License-Identifier: Apache-2.0
#version 460
// dlogits = scale (softmax - onehot), or 0 in rows whose label is outside the row. logits and
// dlogits have KEEL_STORED bits, logsumexp and the rests by cross_entropy_rest are float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats logits;
  Ints labels;
  Floats logsumexp;
  Floats rests;
  Floats dlogits;
  uint count;
  uint span;
  uint columns;
  float scale;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint row = i / columns;
    const int column = int(i - row * columns);
    const int label = labels.at[row];
    float value = 0.0;
    if (label >= 0 && label < int(columns)) {
      const float log_sum = logsumexp.at[row];
      precise float exponent = load(logits, i) - log_sum;
      if (abs(log_sum) >= 64.0) exponent -= rests.at[row];  // others are 0, and need no access
      const float probability = exp_or_infinity(exponent);
      value = scale * (probability - (column == label ? 1.0 : 0.0));
    }
    store(dlogits, i, value);
  }
}
