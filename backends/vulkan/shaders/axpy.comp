// SPDX-License-Identifier: Apache-2.0
#version 460
// result = alpha x + y
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  Floats result;
  uint count;
  uint span;
  float alpha;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) result.at[i] = alpha * load(x, i) + y.at[i];
}
