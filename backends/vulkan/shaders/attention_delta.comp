// SPDX-License-Identifier: Apache-2.0
#version 460
// delta[head, query] = dout . out, one workgroup per row. delta is float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats out_;
  Floats dout;
  Floats delta;
  uint tokens;
  uint heads;
  uint width;
};

void main() {
  for (uint row = gl_WorkGroupID.x; row < tokens * heads; row += gl_NumWorkGroups.x) {
    const uint begin = (row % tokens * heads + row / tokens) * width;
    float sum = 0.0;
    for (uint c = gl_LocalInvocationID.x; c < width; c += gl_WorkGroupSize.x) {
      sum = fma(load(out_, begin + c), load(dout, begin + c), sum);
    }
    sum = reduce_add(sum);
    if (gl_LocalInvocationID.x == 0) delta.at[row] = sum;
  }
}
