// SPDX-License-Identifier: Apache-2.0
// The 8-bit floats, converted in integers as far as a driver's arithmetic could show: rounded to
// nearest even, the largest finite number instead of what is larger, subnormals kept.

struct Float8 {
  uint shift;    // from its mantissa to float32's
  uint rebias;   // of exponents
  float step;    // of subnormals
  uint largest;  // finite, as the bits of a float32
  uint inf;      // the code of infinity, where there is one
  uint nan;      // NaN from this code on
};
const Float8 kE4m3 = Float8(20, 120, 0.001953125, 0x43e00000u, 0x80u, 0x7fu);
const Float8 kE5m2 = Float8(21, 112, 0.0000152587890625, 0x47600000u, 0x7cu, 0x7du);

uint to_float8(uint bits, Float8 type) {
  const uint sign = bits >> 24 & 0x80u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  const uint held = min(magnitude, type.largest);
  if (held < (type.rebias + 1u) << 23) {
    // Subnormal: a number whose own last place is their step rounds the sum as they do. What a
    // driver may flush is below half a step.
    const float anchor = type.step * 8388608.0;
    precise const float sum = uintBitsToFloat(held) + anchor;
    return sign | (floatBitsToUint(sum) - floatBitsToUint(anchor));
  }
  // Half of the last place that stays, a little less where that place is even.
  const uint half_way = (1u << (type.shift - 1u)) - 1u + (held >> type.shift & 1u);
  return sign | (((held + half_way) >> type.shift) - (type.rebias << (23u - type.shift)));
}

// The bits of a float32.
uint from_float8(uint code, Float8 type) {
  const uint sign = (code & 0x80u) << 24;
  const uint magnitude = code & 0x7fu;
  if (magnitude == type.inf) return sign | 0x7f800000u;
  if (magnitude >= type.nan) return sign | 0x7fc00000u;
  const uint shifted = magnitude << type.shift;
  if (shifted < 1u << 23) return sign | floatBitsToUint(float(magnitude) * type.step);
  return sign | (shifted + (type.rebias << 23));
}
