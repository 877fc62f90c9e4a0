// SPDX-License-Identifier: Apache-2.0
// The 16-bit floats, converted in integers: exact, rounded to nearest even, subnormals kept, on
// any driver.

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
