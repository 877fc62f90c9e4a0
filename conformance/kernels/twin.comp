// SPDX-License-Identifier: Apache-2.0
#version 460
// result[invocation] = 3 result[invocation] + first, for grids in x only.
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
  uint at[];
};
layout(push_constant, std430) uniform Arguments {
  Words result;
  uint first;
};

void main() {
  const uint at = gl_GlobalInvocationID.x;
  result.at[at] = 3 * result.at[at] + first;
}
