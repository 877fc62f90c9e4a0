// SPDX-License-Identifier: Apache-2.0
// Elements of any dtype, by their bits; the dtype is a value. value_32.glsl, value_64.glsl and
// value_int.glsl convert bits to the type that a kernel computes in, and back.
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#include "elements.glsl"

layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes {
  uint8_t at[];
};
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
  uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Pairs {
  uvec2 at[];
};

// ElementType of families.h, in the order of the sizes.
const uint kInt8 = 0;
const uint kUint8 = 1;
const uint kInt16 = 2;
const uint kFloat16 = 3;
const uint kBfloat16 = 4;
const uint kInt32 = 5;
const uint kFloat32 = 6;
const uint kInt64 = 7;
const uint kFloat64 = 8;

// Without the sign of a narrow integer.
uvec2 load_bits(uvec2 address, uint type, uint i) {
  if (type <= kUint8) return uvec2(uint(Bytes(address).at[i]), 0);
  if (type <= kBfloat16) return uvec2(uint(Shorts(address).at[i]), 0);
  if (type <= kFloat32) return uvec2(Words(address).at[i], 0);
  return Pairs(address).at[i];
}

void store_bits(uvec2 address, uint type, uint i, uvec2 bits) {
  if (type <= kUint8) {
    Bytes(address).at[i] = uint8_t(bits.x);
  } else if (type <= kBfloat16) {
    Shorts(address).at[i] = uint16_t(bits.x);
  } else if (type <= kFloat32) {
    Words(address).at[i] = bits.x;
  } else {
    Pairs(address).at[i] = bits;
  }
}

// The int of an integer of at most 32 bits.
int widen(uint bits, uint type) {
  if (type == kInt8) return bitfieldExtract(int(bits), 0, 8);
  if (type == kInt16) return bitfieldExtract(int(bits), 0, 16);
  return int(bits);
}
