// SPDX-License-Identifier: Apache-2.0
#version 460
// result[slice, column] = sum over the rows of one slice, one invocation per column. result is
// float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats result;
  uint rows;
  uint columns;
  uint slice_rows;
};

void main() {
  const uint slice = gl_WorkGroupID.y;
  const uint end = min(rows, (slice + 1) * slice_rows);
  for (uint column = gl_GlobalInvocationID.x; column < columns;
       column += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    float sum = 0.0;
    for (uint from = slice * slice_rows; from < end; from += 64) {
      const uint to = min(from + 64, end);
      float part = 0.0;
      for (uint row = from; row < to; ++row) part += load(x, row * columns + column);
      sum += part;
    }
    result.at[slice * columns + column] = sum;
  }
}
