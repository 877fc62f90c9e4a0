// SPDX-License-Identifier: Apache-2.0
// dlogits = scale (softmax - onehot) of a shard's columns, 0 in rows with a negative label.
// Before it is included: stored_32.glsl or stored_16.glsl, by which logits are read and
// dlogits written.
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
