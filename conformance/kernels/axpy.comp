// SPDX-License-Identifier: Apache-2.0
#version 460
// y[i] = a x[i] + y[i], one invocation per element.
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
  if (i >= count) return;
  precise float product = a * x.at[i];
  y.at[i] = product + y.at[i];
}
