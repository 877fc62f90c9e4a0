// SPDX-License-Identifier: Apache-2.0
#version 460
// dx = dy * up * silu'(gate) | dy * silu(gate). In place, an invocation reads its elements before it
// writes them.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "sigmoid.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats dy;
  Floats dx;
  uint count;
  uint span;
  uint width;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint gate = i + i / width * width;
    const float t = load(x, gate);
    const float up = load(x, gate + width);
    const float gradient = load(dy, i);
    const Sigmoid s = sigmoid(t);
    store(dx, gate, gradient * up * silu_slope(t, s));
    store(dx, gate + width, gradient * silu(t, s));
  }
}
