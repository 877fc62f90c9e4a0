// SPDX-License-Identifier: Apache-2.0
#version 460
// c = a + b
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats a;
  Floats b;
  Floats c;
  uint count;
  uint span;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) store(c, i, load(a, i) + load(b, i));
}
