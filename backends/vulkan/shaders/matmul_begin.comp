// SPDX-License-Identifier: Apache-2.0
#version 460
// c = beta c + bias, a row's stretch for each workgroup: what matmul_texel then adds
// to. In the kernel itself these loads would triple the time it takes to compile.
#extension GL_GOOGLE_include_directive : require
#include "matmul.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

void main() {
  for (uint row = gl_WorkGroupID.x; row < m; row += gl_NumWorkGroups.x) {
    for (uint column = gl_LocalInvocationID.x; column < n; column += gl_WorkGroupSize.x) {
      const uint index = c_index(row, column);
      float value = 0.0;
      if (beta != 0.0) value = beta * c.at[index];
      if (has_bias != 0) value += bias.at[column];
      c.at[index] = value;
    }
  }
}
