// SPDX-License-Identifier: Apache-2.0
#version 460
// result[invocation] = the workgroup's index, the invocation's index in the workgroup, grid and
// workgroup size, each in x, y and z; invocations from |capacity| on write nothing.
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
  uint at[];
};
layout(push_constant, std430) uniform Arguments {
  Words result;
  uint capacity;
};

void main() {
  const uvec3 size = gl_NumWorkGroups * gl_WorkGroupSize;
  const uvec3 id = gl_GlobalInvocationID;
  const uint slot = (id.z * size.y + id.y) * size.x + id.x;
  if (slot >= capacity) return;
  for (uint axis = 0; axis < 3; ++axis) {
    result.at[slot * 12 + axis] = gl_WorkGroupID[axis];
    result.at[slot * 12 + 3 + axis] = gl_LocalInvocationID[axis];
    result.at[slot * 12 + 6 + axis] = gl_NumWorkGroups[axis];
    result.at[slot * 12 + 9 + axis] = gl_WorkGroupSize[axis];
  }
}
