// SPDX-License-Identifier: Apache-2.0
#version 460
// out[group] = the sum over 8 x 2 threads of a + b[0] + b[1] + c, through shared memory.
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 8, local_size_y = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
  uint at[];
};
layout(push_constant, std430) uniform Arguments {
  uint a;
  Words result;
  uvec2 b;
  uint c;
};
shared uint parts[16];

void main() {
  parts[gl_LocalInvocationIndex] = a + b.x + b.y + c;
  barrier();
  if (gl_LocalInvocationIndex != 0) return;
  uint sum = 0;
  for (uint i = 0; i < 16; ++i) sum += parts[i];
  result.at[gl_WorkGroupID.x] = sum;
}
