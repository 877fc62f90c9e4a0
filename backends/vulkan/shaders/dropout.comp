// SPDX-License-Identifier: Apache-2.0
#version 460
// y = residual + kept * factor * (x + bias). An invocation draws the four words of a counter by
// Philox4x32-10 and computes the four elements that the words decide.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats bias;
  Floats residual;
  Floats y;
  uvec2 key;     // seed, the lower half first
  uvec2 offset;  // the counter at element 0
  uint count;    // counters
  uint span;
  uint elements;
  uint columns;  // 0: no bias
  uint has_residual;
  uint threshold;
  float factor;
};

uvec4 philox(uvec4 counter, uvec2 round_key) {
  for (int i = 0; i < 10; ++i) {
    uint high0, low0, high1, low1;
    umulExtended(0xD2511F53u, counter.x, high0, low0);
    umulExtended(0xCD9E8D57u, counter.z, high1, low1);
    counter = uvec4(high1 ^ counter.y ^ round_key.x, low1, high0 ^ counter.w ^ round_key.y, low0);
    round_key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}

void main() {
  FOR_EACH_ELEMENT(group, count, span) {
    uint carry;
    const uint lower = uaddCarry(offset.x, group, carry);
    const uvec4 words = philox(uvec4(lower, offset.y + carry, 0u, 0u), key);
    const uint last = min(4 * group + 4, elements);
    for (uint i = 4 * group; i < last; ++i) {
      float value = load(x, i);
      if (columns != 0) value += load(bias, i % columns);
      value = words[i % 4] >= threshold ? factor * value : 0.0;
      if (has_residual != 0) value += load(residual, i);
      store(y, i, value);
    }
  }
}
