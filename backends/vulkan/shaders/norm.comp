// SPDX-License-Identifier: Apache-2.0
#version 460
// layer_norm, and rms_norm where |has_mean| is 0. One workgroup per row, which reads the row from
// memory once and from the caches again.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats gamma;
  Floats beta;
  Floats y;
  Floats means;
  Floats rstds;
  uint rows;
  uint columns;
  uint has_mean;
  uint has_beta;
  float eps;
};

float square(float value) {
  return value * value;
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    float mean = 0.0;
    if (has_mean != 0) {
      float sum = 0.0;
      ADD_COLUMNS(sum, c, columns, load(x, begin + c))
      mean = reduce_add(sum) / float(columns);
    }
    float squares = 0.0;
    ADD_COLUMNS(squares, c, columns, square(load(x, begin + c) - mean))
    const float rstd = 1.0 / sqrt(reduce_add(squares) / float(columns) + eps);
    if (lane == 0) {
      if (has_mean != 0) means.at[row] = mean;
      rstds.at[row] = rstd;
    }
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      // The difference first: x and the mean may be large and close.
      precise float value = (load(x, begin + c) - mean) * rstd;
      value = value * load(gamma, c);
      if (has_beta != 0) value += load(beta, c);
      store(y, begin + c, value);
    }
  }
}
