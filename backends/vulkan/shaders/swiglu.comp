#version 460
// y = silu(gate) * up: rows of x are two of y's side by side.
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
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
    const float t = x.at[gate];
    y.at[i] = t * sigmoid(t).value * x.at[gate + width];
  }
}
