// SPDX-License-Identifier: Apache-2.0
#version 460
// dx = dy where clamp leaves x unchanged, else 0, also where x is NaN
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats dy;
  Floats dx;
  uint count;
  uint span;
  float low;
  float high;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const float t = load(x, i);
    const bool is_cut = t < low || t > high || isnan(t);
    const float gradient = load(dy, i);
    store(dx, i, is_cut ? 0.0 : gradient);
  }
}
