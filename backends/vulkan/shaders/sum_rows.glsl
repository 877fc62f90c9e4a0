// SPDX-License-Identifier: Apache-2.0
// result[row] = sum of row |row|, a workgroup a row. A row begins every |columns|
// elements and the last may be short: |count| elements in all. Before it is included:
// stored_32.glsl or stored_16.glsl, by which x is read.
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
