// SPDX-License-Identifier: Apache-2.0
#version 460
// Of float16 or bfloat16, into the same or into float32. Conversions are in integers, as in casts:
// exact, rounded to nearest even.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "matmul.glsl"
#include "float16.glsl"

layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};

const bool kBfloat16 = (kVariantRest & 1) != 0;
const bool kWideC = (kVariantRest & 2) != 0;  // c is float32

float widened(uint code) {
  return kBfloat16 ? uintBitsToFloat(code << 16) : from_float16(code);
}

float load_a(uint i) { return widened(uint(Shorts(a).at[i])); }
float load_b(uint i) { return widened(uint(Shorts(b).at[i])); }
float load_bias(uint i) { return widened(uint(Shorts(bias).at[i])); }
float load_c(uint i) { return kWideC ? c.at[i] : widened(uint(Shorts(c).at[i])); }

void store_c(uint i, float value) {
  if (kWideC) {
    c.at[i] = value;
  } else {
    const uint code = kBfloat16 ? to_bfloat16(floatBitsToUint(value)) : to_float16(value);
    Shorts(c).at[i] = uint16_t(code);
  }
}

#include "matmul_tiles.glsl"
