// SPDX-License-Identifier: Apache-2.0
#version 460
// dx = scale * y * (dy - the sum of y * dy), one workgroup per row.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats y;
  Floats dy;
  Floats dx;
  uint rows;
  uint columns;
  float scale;
};

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    float dot_product = 0.0;
    ADD_COLUMNS(dot_product, c, columns, load(y, begin + c) * load(dy, begin + c))
    dot_product = reduce_add(dot_product);
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      store(dx, begin + c, scale * load(y, begin + c) * (load(dy, begin + c) - dot_product));
    }
  }
}
