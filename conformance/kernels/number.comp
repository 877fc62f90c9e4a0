// SPDX-License-Identifier: Apache-2.0
#version 460
// result[invocation] += the invocation's index in the grid, plus |first|.
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
  const uvec3 size = gl_NumWorkGroups * gl_WorkGroupSize;
  const uvec3 id = gl_GlobalInvocationID;
  const uint at = (id.z * size.y + id.y) * size.x + id.x;
  result.at[at] += at + first;
}
