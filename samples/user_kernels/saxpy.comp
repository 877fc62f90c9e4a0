// SPDX-License-Identifier: Apache-2.0
#version 460
// saxpy for devices that take SPIR-V: one invocation an element. Keel gives the block of
// a launch to the specialisation constants 0, 1 and 2, and each argument to one member of
// the push constants.
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
  float at[];
};

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  float a;
  uint count;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < count) y.at[i] += a * x.at[i];
}
