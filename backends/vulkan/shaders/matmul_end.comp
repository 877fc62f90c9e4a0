// SPDX-License-Identifier: Apache-2.0
#version 460
// c = activation(c), a row's stretch for each workgroup: what matmul_texel has left of a product
// that ends in one. In the kernel itself it would be compiled for each of a lane's sums.
#extension GL_GOOGLE_include_directive : require
#include "matmul.glsl"
#include "math.glsl"
#include "gelu.glsl"
#include "bias_gelu.glsl"
#include "sigmoid.glsl"
#include "activation.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

void main() {
  for (uint row = gl_WorkGroupID.x; row < m; row += gl_NumWorkGroups.x) {
    for (uint column = gl_LocalInvocationID.x; column < n; column += gl_WorkGroupSize.x) {
      const uint index = c_index(row, column);
      c.at[index] = activated(c.at[index], activation);
    }
  }
}
