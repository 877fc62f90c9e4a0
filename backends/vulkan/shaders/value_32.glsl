// SPDX-License-Identifier: Apache-2.0
// Kernels that compute in float32; an include of typed.glsl comes first. 64-bit integers are
// converted in 32 bits, since a device may lack them.
#include "float16.glsl"

#define Value float

// Tests bits: a driver may take arithmetic on NaN for what it never sees.
bool is_nan(float value) { return (floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u; }
float nan() { return uintBitsToFloat(0x7fc00000u); }
float infinity() { return uintBitsToFloat(0x7f800000u); }
float number(uvec2 bits) { return uintBitsToFloat(bits.x); }
uvec2 bits_of(float value) { return uvec2(floatBitsToUint(value), 0); }

// The upper 32 significant bits, the lowest of them set if a bit below is, round as all would.
float from_int64(uvec2 bits) {
  const bool negative = int(bits.y) < 0;
  uvec2 size = negative ? ~bits : bits;
  if (negative) {
    ++size.x;
    if (size.x == 0) ++size.y;
  }
  float value = float(size.x);
  if (size.y != 0) {
    const int shift = findMSB(size.y) + 1;
    uint upper = size.x;
    if (shift < 32) upper = size.y << (32 - shift) | size.x >> shift;
    if (shift == 32) upper = size.y;
    const uint lower = shift == 32 ? size.x : size.x << (32 - shift);
    if (lower != 0) upper |= 1u;
    value = float(upper) * uintBitsToFloat(uint(shift + 127) << 23);
  }
  return negative ? -value : value;
}

// Truncates.
uvec2 to_int64(float value) {
  const float size = abs(value);
  const float upper = floor(size * 2.3283064365386963e-10);
  uvec2 bits = uvec2(uint(size - upper * 4294967296.0), uint(upper));
  if (value < 0.0) {
    bits = ~bits;
    ++bits.x;
    if (bits.x == 0) ++bits.y;
  }
  return bits;
}

float to_value(uvec2 bits, uint type) {
  if (type == kFloat32) return uintBitsToFloat(bits.x);
  if (type == kBfloat16) return uintBitsToFloat(bits.x << 16);
  if (type == kFloat16) return from_float16(bits.x);
  if (type == kInt64) return from_int64(bits);
  return float(widen(bits.x, type));
}

uvec2 to_bits(float value, uint type) {
  if (type == kFloat32) return uvec2(floatBitsToUint(value), 0);
  if (type == kBfloat16) return uvec2(to_bfloat16(floatBitsToUint(value)), 0);
  if (type == kFloat16) return uvec2(to_float16(value), 0);
  if (type == kInt64) return to_int64(value);
  return uvec2(uint(int(value)), 0);
}
