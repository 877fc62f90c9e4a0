// SPDX-License-Identifier: Apache-2.0
#version 460
// y = alpha x, as small as a kernel can be.
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
  float at[];
};
layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  float alpha;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < count) y.at[i] = alpha * x.at[i];
}
