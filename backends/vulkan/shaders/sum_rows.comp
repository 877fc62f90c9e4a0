// SPDX-License-Identifier: Apache-2.0
#version 460
// result[row] = sum of row |row|, one workgroup per row. Rows have |columns| elements, the last one
// may be short: |count| is the number of elements in all. result is float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats result;
  uint rows;
  uint columns;
  uint count;
};

void main() {
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    const uint end = min(begin + columns, count);
    // In blocks, so that the rounding error grows with the square root of the count.
    float sum = 0.0;
    const uint block = 64 * gl_WorkGroupSize.x;
    for (uint from = begin; from < end; from += block) {
      const uint to = min(from + block, end);
      float part = 0.0;
      for (uint i = from + gl_LocalInvocationID.x; i < to; i += gl_WorkGroupSize.x) {
        part += load(x, i);
      }
      sum += part;
    }
    sum = reduce_add(sum);
    if (gl_LocalInvocationID.x == 0) result.at[row] = sum;
  }
}
