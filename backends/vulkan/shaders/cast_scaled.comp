// SPDX-License-Identifier: Apache-2.0
#version 460
// y = scale * x to an 8-bit float type or from one; amax, zero before, is raised to the largest
// |x| by its bits, which order NaN above all else.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "elements.glsl"
#include "float16.glsl"
#include "float8.glsl"

layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes {
  uint8_t at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Largest {
  uint bits;
};
layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats scale;
  Floats y;
  Largest amax;
  uint count;
  uint span;
  uint columns;  // of a row of x
  uint gap;      // between its rows, modulo 2^32: less than nothing where they overlap
};

// Source and destination types: 5 * source + destination.
layout(constant_id = 2) const uint kVariant = 0;
const uint kSource = kVariant / 5;
const uint kDestination = kVariant % 5;
const uint kFloat32 = 0;
const uint kFloat16 = 1;
const uint kBfloat16 = 2;
const uint kFloat8E4m3 = 3;
const uint kFloat8E5m2 = 4;

// The bits of a float32.
uint load(uint i) {
  if (kSource == kFloat16) return floatBitsToUint(from_float16(uint(Shorts(x).at[i])));
  if (kSource == kBfloat16) return uint(Shorts(x).at[i]) << 16;
  if (kSource == kFloat8E4m3) return from_float8(uint(Bytes(x).at[i]), kE4m3);
  if (kSource == kFloat8E5m2) return from_float8(uint(Bytes(x).at[i]), kE5m2);
  return floatBitsToUint(x.at[i]);
}

void store(uint i, uint bits) {
  if (kDestination == kFloat16) {
    Shorts(y).at[i] = uint16_t(to_float16(uintBitsToFloat(bits)));
  } else if (kDestination == kBfloat16) {
    Shorts(y).at[i] = uint16_t(to_bfloat16(bits));
  } else if (kDestination == kFloat8E4m3) {
    Bytes(y).at[i] = uint8_t(to_float8(bits, kE4m3));
  } else if (kDestination == kFloat8E5m2) {
    Bytes(y).at[i] = uint8_t(to_float8(bits, kE5m2));
  } else {
    y.at[i] = uintBitsToFloat(bits);
  }
}

void main() {
  const float factor = scale.at[0];
  uint largest = 0;
  FOR_EACH_ELEMENT(i, count, span) {
    const uint bits = load(gap == 0 ? i : i + i / columns * gap);
    const uint magnitude = bits & 0x7fffffffu;
    largest = max(largest, magnitude > 0x7f800000u ? 0x7fc00000u : magnitude);
    precise const float product = factor * uintBitsToFloat(bits);
    store(i, floatBitsToUint(product));
  }
  largest = subgroupMax(largest);
  if (subgroupElect()) atomicMax(amax.bits, largest);
}
