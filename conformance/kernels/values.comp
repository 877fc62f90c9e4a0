// SPDX-License-Identifier: Apache-2.0
#version 460
// result = the bytes of all other arguments, concatenated. Push constants contain only words and
// vectors of words, because narrower types need an extension, and 128 bytes, because some devices
// support no more. The second and the third argument follow a gap, and the last is no single word.
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
  uint at[];
};
layout(push_constant, std430) uniform Arguments {
  Words result;
  uint a;
  uvec2 b;
  uvec4 c;
  uvec3 d;
  uint e;
  uvec4 f;
  uint g[6];
  uvec2 h;
};

void main() {
  result.at[0] = a;
  result.at[1] = b.x;
  result.at[2] = b.y;
  for (int at = 0; at < 4; ++at) result.at[3 + at] = c[at];
  for (int at = 0; at < 3; ++at) result.at[7 + at] = d[at];
  result.at[10] = e;
  for (int at = 0; at < 4; ++at) result.at[11 + at] = f[at];
  for (int at = 0; at < 6; ++at) result.at[15 + at] = g[at];
  result.at[21] = h.x;
  result.at[22] = h.y;
}
