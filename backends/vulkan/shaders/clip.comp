// SPDX-License-Identifier: Apache-2.0
#version 460
// g_out = g * min(1, max_norm / (sqrt(sum_of_squares) + 1e-6)). g and g_out have KEEL_STORED bits,
// sum_of_squares is float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats g;
  Floats sum_of_squares;
  Floats g_out;
  uint count;
  uint span;
  float max_norm;
};

void main() {
  const float sum = sum_of_squares.at[0];
  float factor = max_norm / (sqrt(sum) + 1e-6);
  if (factor > 1.0) factor = 1.0;
  if (isnan(sum)) factor = sum;
  FOR_EACH_ELEMENT(i, count, span) store(g_out, i, factor * load(g, i));
}
