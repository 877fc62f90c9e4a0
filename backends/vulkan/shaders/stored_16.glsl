// SPDX-License-Identifier: Apache-2.0
// For stored.glsl: elements that are stored as float16, or as bfloat16 by the lowest bit of the
// variant. Widened and rounded in integers: exact on any driver.
#extension GL_EXT_shader_16bit_storage : require
#include "float16.glsl"

layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};

const bool kBfloat16 = (kVariant & 1) != 0;

float load(Floats tensor, uint i) {
  const uint code = uint(Shorts(tensor).at[i]);
  return kBfloat16 ? uintBitsToFloat(code << 16) : from_float16(code);
}

void store(Floats tensor, uint i, float value) {
  const uint code = kBfloat16 ? to_bfloat16(floatBitsToUint(value)) : to_float16(value);
  Shorts(tensor).at[i] = uint16_t(code);
}
