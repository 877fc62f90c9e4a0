#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "math.glsl"
#include "gelu.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  uint span;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const float value = x.at[i];
    y.at[i] = value / (1.0 + gelu_exponential(value));
  }
}
