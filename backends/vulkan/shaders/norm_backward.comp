// SPDX-License-Identifier: Apache-2.0
#version 460
// dx of layer_norm, and of rms_norm where |has_mean| is 0. One workgroup per row.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats dy;
  Floats x;
  Floats gamma;
  Floats means;
  Floats rstds;
  Floats dx;
  uint rows;
  uint columns;
  uint has_mean;
};

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    const float mean = has_mean != 0 ? means.at[row] : 0.0;
    const float rstd = rstds.at[row];
    float sum = 0.0;    // of g = dy * gamma
    float slope = 0.0;  // of g * xhat
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      const float g = load(dy, begin + c) * load(gamma, c);
      precise float xhat = (load(x, begin + c) - mean) * rstd;
      sum += g;
      slope += g * xhat;
    }
    float mean_g = 0.0;
    if (has_mean != 0) mean_g = reduce_add(sum) / float(columns);
    const float mean_slope = reduce_add(slope) / float(columns);
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      const float g = load(dy, begin + c) * load(gamma, c);
      precise float xhat = (load(x, begin + c) - mean) * rstd;
      store(dx, begin + c, rstd * ((g - mean_g) - xhat * mean_slope));
    }
  }
}
