// SPDX-License-Identifier: Apache-2.0
#version 460
// One workgroup per chunk: the sum of its squares, and a flag for an element that is not finite. A
// single chunk writes the outputs. Several chunks write |sums| and |flags|, and a second dispatch,
// of one workgroup with kJoin, computes the outputs from them. x has KEEL_STORED bits.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "reduce.glsl"

// Variant 1 of the 32-bit module joins, whatever the dtype of x.
#if KEEL_STORED == 32
const bool kJoin = kVariant == 1;
#else
const bool kJoin = false;
#endif

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats sums;
  Floats flags;
  Floats before;
  Floats total;
  Ints found;
  uint count;
  uint chunk;
  uint chunks;
  uint has_before;
};

// By its bits: a driver may take arithmetic on NaN for what it never sees.
float is_no_number(float value) {
  return (floatBitsToUint(value) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0;
}

void write_outputs(float sum, float flag) {
  if (has_before != 0) {
    const float old = before.at[0];
    sum += old;
    flag = max(flag, is_no_number(old));
  }
  total.at[0] = sum;
  found.at[0] = int(flag);
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  if (kJoin) {
    float sum = 0.0;
    float flag = 0.0;
    for (uint i = lane; i < chunks; i += gl_WorkGroupSize.x) {
      sum += sums.at[i];
      flag = max(flag, flags.at[i]);
    }
    sum = reduce_add(sum);
    flag = reduce_max(flag);
    if (lane == 0) write_outputs(sum, flag);
    return;
  }
  for (uint index = gl_WorkGroupID.x; index < chunks; index += gl_NumWorkGroups.x) {
    const uint begin = index * chunk;
    const uint end = min(begin + chunk, count);
    // In blocks, so that the rounding error grows with the square root of the count.
    const uint block = 64 * gl_WorkGroupSize.x;
    float sum = 0.0;
    float flag = 0.0;
    for (uint from = begin; from < end; from += block) {
      const uint to = min(from + block, end);
      float part = 0.0;
      for (uint i = from + lane; i < to; i += gl_WorkGroupSize.x) {
        const float value = load(x, i);
        part += value * value;
        flag = max(flag, is_no_number(value));
      }
      sum += part;
    }
    sum = reduce_add(sum);
    flag = reduce_max(flag);
    if (lane == 0) {
      if (chunks == 1) {
        write_outputs(sum, flag);
      } else {
        sums.at[index] = sum;
        flags.at[index] = flag;
      }
    }
  }
}
