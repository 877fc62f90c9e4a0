// SPDX-License-Identifier: Apache-2.0
#version 460
// y[.., index[.., i, ..], ..] = x[.., i, ..], or +=. An invocation owns |range| places along the
// axis of a line, and visits all indices of the line in order: the last of equal indices is
// stored, and sums have one order, without atomics. An index outside of y is skipped.
#extension GL_GOOGLE_include_directive : require
#include "typed.glsl"
#if KEEL_COMPUTE == 64
#include "value_64.glsl"
#else
#include "value_32.glsl"
#endif

const uint kPushedAxes = 4;

layout(push_constant, std430) uniform Arguments {
  uvec2 x;
  uvec2 index;
  uvec2 y;
  uint call;  // type of x: 4 bits, wide index: 1, axes - 1: 3, add: 1, type of y: 4
  uint count;  // lines times owners
  uint span;
  uint lines;
  uint terms;   // of a line of x
  uint extent;  // of y along the axis
  uint range;
  uint axis_strides[3];     // of x, index, y
  uint steps[4 * kPushedAxes - 1];  // of the other axes
};
#include "indexed.glsl"

uint y_type() { return call >> 9 & 15u; }

uvec2 sum_of(uvec2 y_bits, uvec2 x_bits) {
  if (type() == kInt64) {
    uint carry;
    const uint lower = uaddCarry(y_bits.x, x_bits.x, carry);
    return uvec2(lower, y_bits.y + x_bits.y + carry);
  }
#if KEEL_COMPUTE != 64
  if (type() != kFloat32 && type() != kFloat16 && type() != kBfloat16) {
    return uvec2(y_bits.x + x_bits.x, 0);
  }
#endif
  return to_bits(to_value(y_bits, y_type()) + to_value(x_bits, type()), y_type());
}

void main() {
  const bool adds = (call & 256u) != 0;
  FOR_EACH_ELEMENT(i, count, span) {
    const uint owner = i / lines;
    const uvec3 place = place_of(i - owner * lines);
    const uint first = owner * range;
    const uint owned = min(range, extent - first);
    for (uint term = 0; term < terms; ++term) {
      const uint at = index_at(place.y + term * axis_strides[1], extent);
      if (at - first >= owned) continue;
      uvec2 bits = load_bits(x, type(), place.x + term * axis_strides[0]);
      const uint to = place.z + at * axis_strides[2];
      if (adds) bits = sum_of(load_bits(y, y_type(), to), bits);
      store_bits(y, y_type(), to, bits);
    }
  }
}
