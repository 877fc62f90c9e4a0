// SPDX-License-Identifier: Apache-2.0
#version 460
// y = residual + kept * factor * (x + bias). An invocation draws the four words of a counter by
// Philox4x32-10 and computes the four elements that the words decide.
#extension GL_GOOGLE_include_directive : require
#include "philox.glsl"
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

void main() {
  FOR_EACH_ELEMENT(group, count, span) {
    const uvec4 words = philox_at(offset, group, key);
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
