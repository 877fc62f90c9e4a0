// SPDX-License-Identifier: Apache-2.0
#version 460
// y = silu(gate) * up. A row of x is a row of gate and a row of up, each as long as a row of y.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "sigmoid.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  uint span;
  uint width;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint gate = i + i / width * width;
    const float t = load(x, gate);
    store(y, i, silu(t) * load(x, gate + width));
  }
}
