#version 460
// Between float32, float16, bfloat16 and int32. The 16-bit floats are converted in
// integers: exact, rounded to nearest even, subnormals kept, on any driver.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "elements.glsl"

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

uint to_float16(float value) {
  const uint bits = floatBitsToUint(value);
  const uint sign = bits >> 16 & 0x8000u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 2^16 and infinity
  uint mantissa;
  uint shift;
  uint base;
  if (magnitude < 0x38800000u) {  // subnormal in 16 bits
    const uint exponent = magnitude >> 23;
    if (exponent < 102u) return sign;
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126u - exponent;
    base = 0;
  } else {
    mantissa = magnitude & 0x7fffffu;
    shift = 13;
    base = ((magnitude >> 23) - 112u) << 10;
  }
  const uint kept = mantissa >> shift;
  const uint rest = mantissa & ((1u << shift) - 1u);
  const uint half_way = 1u << (shift - 1u);
  const uint up = uint(rest > half_way || (rest == half_way && (kept & 1u) != 0));
  return sign | (base + kept + up);
}

float from_float16(uint code) {
  const uint sign = (code & 0x8000u) << 16;
  const uint exponent = code >> 10 & 31u;
  const uint mantissa = code & 0x3ffu;
  if (exponent == 31u) {
    const uint quiet = mantissa == 0 ? 0u : 0x400000u;
    return uintBitsToFloat(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  if (exponent != 0) return uintBitsToFloat(sign | (exponent + 112u) << 23 | mantissa << 13);
  return uintBitsToFloat(sign | floatBitsToUint(float(mantissa) * 5.9604644775390625e-8));
}

uint to_bfloat16(uint bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

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
