// SPDX-License-Identifier: Apache-2.0
#version 460
// Between float32, float16, bfloat16 and int32. The 16-bit floats are converted in
// integers: exact, rounded to nearest even, subnormals kept, on any driver.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "elements.glsl"
#include "float16.glsl"

layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};
layout(push_constant, std430) uniform Arguments {
  Ints x;
  Ints y;
  uint count;
  uint span;
};

// Source and destination types: 4 * source + destination.
layout(constant_id = 2) const uint kVariant = 0;
const uint kFloat32 = 0;
const uint kFloat16 = 1;
const uint kBfloat16 = 2;
const uint kInt32 = 3;

void main() {
  const uint source = kVariant / 4;
  const uint destination = kVariant % 4;
  FOR_EACH_ELEMENT(i, count, span) {
    // As the bits of a float32; of an int32 when that is the source.
    uint bits;
    if (source == kFloat16) {
      bits = floatBitsToUint(from_float16(uint(Shorts(x).at[i])));
    } else if (source == kBfloat16) {
      bits = uint(Shorts(x).at[i]) << 16;
    } else {
      bits = uint(x.at[i]);
    }
    if (source == kInt32) bits = floatBitsToUint(float(int(bits)));
    if (destination == kFloat16) {
      Shorts(y).at[i] = uint16_t(to_float16(uintBitsToFloat(bits)));
    } else if (destination == kBfloat16) {
      Shorts(y).at[i] = uint16_t(to_bfloat16(bits));
    } else if (destination == kInt32) {
      y.at[i] = int(uintBitsToFloat(bits));
    } else {
      y.at[i] = int(bits);
    }
  }
}
