// SPDX-License-Identifier: Apache-2.0
#version 460
// dlogits = scale (softmax - onehot) of a shard's columns, or 0 in rows with a negative label.
// logits and dlogits have KEEL_STORED bits, logsumexp is float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats logits;
  Ints labels;
  Floats logsumexp;
  Floats dlogits;
  uint count;
  uint span;
  uint columns;
  uint first;
  float scale;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint row = i / columns;
    const uint column = i - row * columns;
    const int label = labels.at[row];
    float value = 0.0;
    if (label >= 0) {
      const float probability = exp_or_infinity(load(logits, i) - logsumexp.at[row]);
      value = scale * (probability - (uint(label) == first + column ? 1.0 : 0.0));
    }
    store(dlogits, i, value);
  }
}
