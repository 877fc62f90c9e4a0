// SPDX-License-Identifier: Apache-2.0
#version 460
// y = alpha x
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  uint span;
  float alpha;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) store(y, i, alpha * load(x, i));
}
