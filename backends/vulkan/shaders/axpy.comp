#version 460
// result = alpha x + y
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  Floats result;
  uint count;
  uint span;
  float alpha;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) result.at[i] = alpha * x.at[i] + y.at[i];
}
