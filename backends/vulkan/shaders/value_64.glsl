// SPDX-License-Identifier: Apache-2.0
// Kernels that compute in float64; an include of typed.glsl comes first.
#include "float16.glsl"

#define Value double

bool is_nan(double value) {
  const uvec2 bits = unpackDouble2x32(value);
  const uint upper = bits.y & 0x7fffffffu;
  return upper > 0x7ff00000u || (upper == 0x7ff00000u && bits.x != 0);
}
double nan() { return packDouble2x32(uvec2(0, 0x7ff80000u)); }
double infinity() { return packDouble2x32(uvec2(0, 0x7ff00000u)); }
double number(uvec2 bits) { return packDouble2x32(bits); }
uvec2 bits_of(double value) { return unpackDouble2x32(value); }

// Truncates.
uvec2 to_int64(double value) {
  const double whole = trunc(value);
  const double upper = floor(whole * 2.3283064365386963e-10LF);
  return uvec2(uint(whole - upper * 4294967296.0LF), uint(int(upper)));
}

// The bits of a float32. With |to_odd| an inexact result has an odd last bit, so that it rounds to
// a narrower type as |value| does.
uint narrow(double value, bool to_odd) {
  const float nearest = float(value);
  uint bits = floatBitsToUint(nearest);
  if (!to_odd || is_nan(value)) return bits;
  const double back = double(nearest);
  if (back != value && (bits & 1u) == 0) bits += abs(back) < abs(value) ? 1u : 0xffffffffu;
  return bits;
}

double to_value(uvec2 bits, uint type) {
  if (type == kFloat64) return packDouble2x32(bits);
  if (type == kFloat32) return double(uintBitsToFloat(bits.x));
  if (type == kBfloat16) return double(uintBitsToFloat(bits.x << 16));
  if (type == kFloat16) return double(from_float16(bits.x));
  if (type == kInt64) return double(int(bits.y)) * 4294967296.0LF + double(bits.x);
  return double(widen(bits.x, type));
}

uvec2 to_bits(double value, uint type) {
  if (type == kFloat64) return unpackDouble2x32(value);
  if (type == kFloat32) return uvec2(narrow(value, false), 0);
  if (type == kBfloat16) return uvec2(to_bfloat16(narrow(value, true)), 0);
  if (type == kFloat16) return uvec2(to_float16(uintBitsToFloat(narrow(value, true))), 0);
  if (type == kInt64) return to_int64(value);
  return uvec2(uint(int(value)), 0);
}
