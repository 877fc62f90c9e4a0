// SPDX-License-Identifier: Apache-2.0
#version 460
// y = gelu(x + bias)
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "gelu.glsl"
#include "bias_gelu.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats bias;
  Floats y;
  uint count;
  uint span;
  uint columns;
  uint has_bias;
  uint by_erf;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    float t = load(x, i);
    if (has_bias != 0) t += load(bias, i % columns);
    store(y, i, gelu_of(t, by_erf != 0));
  }
}
