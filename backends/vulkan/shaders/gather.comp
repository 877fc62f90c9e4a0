// SPDX-License-Identifier: Apache-2.0
#version 460
// y[.., i, ..] = x[.., index[.., i, ..], ..], of elements of any size and strides; 0 for an index
// outside of x. x has no stride along the axis, but |axis_stride|.
#extension GL_GOOGLE_include_directive : require
#include "typed.glsl"

const uint kPushedAxes = 5;

layout(push_constant, std430) uniform Arguments {
  uvec2 x;
  uvec2 index;
  uvec2 y;
  uint call;  // type: 4 bits, wide index: 1, axes - 1: 3
  uint count;
  uint span;
  uint extent;  // of x along the axis
  uint axis_stride;
  uint steps[4 * kPushedAxes - 1];
};
#include "indexed.glsl"

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uvec3 place = place_of(i);
    const uint at = index_at(place.y, extent);
    uvec2 bits = uvec2(0);
    if (at < extent) bits = load_bits(x, type(), place.x + at * axis_stride);
    store_bits(y, type(), place.z, bits);
  }
}
