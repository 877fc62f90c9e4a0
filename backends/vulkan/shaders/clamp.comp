// SPDX-License-Identifier: Apache-2.0
#version 460
// y = the smaller of high and the larger of low and x; comparisons with NaN are false
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  uint span;
  float low;
  float high;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const float t = load(x, i);
    const float raised = t < low ? low : t;
    store(y, i, raised > high ? high : raised);
  }
}
