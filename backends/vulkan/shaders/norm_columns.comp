// SPDX-License-Identifier: Apache-2.0
#version 460
// dgamma and dbeta over the rows of one slice, [slice, column], one invocation per column. Where
// |has_mean| is 0, dgamma of rms_norm, without mean and dbeta. The results are float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats dy;
  Floats x;
  Floats means;
  Floats rstds;
  Floats dgamma;
  Floats dbeta;
  uint rows;
  uint columns;
  uint slice_rows;
  uint has_mean;
};

void main() {
  const uint slice = gl_WorkGroupID.y;
  const uint first = slice * slice_rows;
  const uint end = min(rows, first + slice_rows);
  for (uint column = gl_GlobalInvocationID.x; column < columns;
       column += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    float factors = 0.0;
    float offsets = 0.0;
    for (uint row = first; row < end; ++row) {
      const float gradient = load(dy, row * columns + column);
      const float mean = has_mean != 0 ? means.at[row] : 0.0;
      precise float xhat = (load(x, row * columns + column) - mean) * rstds.at[row];
      factors += gradient * xhat;
      offsets += gradient;
    }
    dgamma.at[slice * columns + column] = factors;
    if (has_mean != 0) dbeta.at[slice * columns + column] = offsets;
  }
}
