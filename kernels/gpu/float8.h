// SPDX-License-Identifier: Apache-2.0
// The 8-bit float types, converted with integer arithmetic: every chip produces the same bits.
#ifndef KEEL_KERNELS_GPU_FLOAT8_H_
#define KEEL_KERNELS_GPU_FLOAT8_H_

#include <cstring>

#include "kernels/gpu/simt.h"

namespace keel::simt {

inline constexpr uint32_t kInfinityBits = 0x7f800000;
inline constexpr uint32_t kQuietNaN = 0x7fc00000;

KEEL_SIMT_FUNCTION uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
KEEL_SIMT_FUNCTION float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Storage types of the 8-bit floats.
struct e4m3 {
  uint8_t bits;
  static constexpr int kShift = 20;                 // from this mantissa to float32's
  static constexpr uint32_t kRebias = 127 - 7;      // difference of the exponent biases
  static constexpr float kStep = 1.0F / 512;        // of subnormals
  static constexpr uint32_t kLargest = 0x43e00000;  // 448
  static constexpr uint32_t kInfinity = 0x80;       // no code: e4m3 lacks infinity
  static constexpr uint32_t kNaN = 0x7f;            // codes from here on are NaN
};
struct e5m2 {
  uint8_t bits;
  static constexpr int kShift = 21;
  static constexpr uint32_t kRebias = 127 - 15;
  static constexpr float kStep = 1.0F / 65536;
  static constexpr uint32_t kLargest = 0x47600000;  // 57344
  static constexpr uint32_t kInfinity = 0x7c;
  static constexpr uint32_t kNaN = 0x7d;
};

template <typename Float8>
KEEL_SIMT_FUNCTION float decode(Float8 value) {
  const uint32_t sign = (value.bits & 0x80u) << 24;
  const uint32_t magnitude = value.bits & 0x7fu;
  const uint32_t shifted = magnitude << Float8::kShift;
  uint32_t bits = shifted + (Float8::kRebias << 23);
  if (shifted < 1u << 23) bits = bits_of(static_cast<float>(magnitude) * Float8::kStep);
  if (magnitude >= Float8::kNaN) bits = kQuietNaN;
  if (magnitude == Float8::kInfinity) bits = kInfinityBits;
  return float_of(sign | bits);
}

// Rounds to nearest, ties to even; saturates to the largest finite number.
template <typename Float8>
KEEL_SIMT_FUNCTION Float8 encode(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t held = magnitude < Float8::kLargest ? magnitude : Float8::kLargest;
  uint32_t code;
  if (magnitude > kInfinityBits) {
    code = 0x7f;
  } else if (held < (Float8::kRebias + 1) << 23) {
    // The anchor's last place is the subnormals' step, so the addition rounds as subnormals do.
    constexpr float kAnchor = Float8::kStep * 8388608.0F;
    code = bits_of(float_of(held) + kAnchor) - bits_of(kAnchor);
  } else {
    // Half a unit of the last kept place, minus one bit if that place is even.
    const uint32_t half = (1u << (Float8::kShift - 1)) - 1 + (held >> Float8::kShift & 1u);
    code = ((held + half) >> Float8::kShift) - (Float8::kRebias << (23 - Float8::kShift));
  }
  return {static_cast<uint8_t>((bits >> 24 & 0x80u) | code)};
}

KEEL_SIMT_FUNCTION float to_float(e4m3 value) {
  return decode(value);
}
KEEL_SIMT_FUNCTION float to_float(e5m2 value) {
  return decode(value);
}

template <>
struct Round<e4m3> {
  KEEL_SIMT_FUNCTION static e4m3 of(float value) { return encode<e4m3>(value); }
};
template <>
struct Round<e5m2> {
  KEEL_SIMT_FUNCTION static e5m2 of(float value) { return encode<e5m2>(value); }
};

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_FLOAT8_H_
