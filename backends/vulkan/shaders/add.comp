#version 460
// c = a + b
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats a;
  Floats b;
  Floats c;
  uint count;
  uint span;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) c.at[i] = a.at[i] + b.at[i];
}
