#version 460
// dx = dy (s + x s (1 - s) 2u'), s the sigmoid of 2u
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "math.glsl"
#include "gelu.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats dy;
  Floats dx;
  uint count;
  uint span;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const float value = x.at[i];
    const float e = gelu_exponential(value);
    const float s = 1.0 / (1.0 + e);
    // Beyond 20 the second term is 0, and must not become inf * 0.
    const float v = clamp(value, -20.0, 20.0);
    const float slope = kGeluScale * fma(3.0 * kGeluCubic * v, v, 1.0);
    dx.at[i] = dy.at[i] * s * fma(v * slope, e * s, 1.0);
  }
}
