// SPDX-License-Identifier: Apache-2.0
#version 460
// embedding_backward of float16 or bfloat16, which are widened in integers: exact on any driver.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "embedding_backward.glsl"
#include "float16.glsl"

layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};

layout(constant_id = 2) const uint kVariant = 0;
const bool kBfloat16 = kVariant == 1;

float load(uint i) {
  const uint code = uint(Shorts(dout).at[i]);
  return kBfloat16 ? uintBitsToFloat(code << 16) : from_float16(code);
}
