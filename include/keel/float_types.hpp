// SPDX-License-Identifier: Apache-2.0
// The 16- and 8-bit float types as plain integers, and their conversions to and
// from float32: round to nearest even, as IEEE 754 and OCP's OFP8 define them.
// Header-only; used on both sides of the ABI.
#ifndef KEEL_FLOAT_TYPES_HPP_
#define KEEL_FLOAT_TYPES_HPP_

#include <bit>
#include <cstdint>

namespace keel {

namespace detail {

// float32 -> a small float of |kExponent| and |kMantissa| bits (sign on top).
// |kFinite|: no infinities, the top code is NaN (e4m3fn), and overflow saturates
// to the largest finite value; otherwise overflow gives infinity.
template <int kExponent, int kMantissa, bool kFinite>
constexpr uint32_t encode_float(float value) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kTop = (1u << (kExponent + kMantissa)) - 1;  // all ones below the sign
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) << (kExponent + kMantissa);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | kTop;  // NaN, quiet
  constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  if (magnitude == 0x7f800000u) return sign | (kFinite ? kTop - 1 : kInfinity);
  int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
  uint32_t mantissa = (magnitude & 0x7fffffu) | (magnitude >= 0x800000u ? 0x800000u : 0u);
  int shift = 23 - kMantissa;
  if (exponent <= 0) {  // subnormal in the small type
    shift += 1 - exponent;
    exponent = 0;
    if (shift > 25) return sign;
  } else {
    mantissa &= 0x7fffffu;
  }
  const uint32_t half = 1u << (shift - 1);
  uint32_t result = (static_cast<uint32_t>(exponent) << kMantissa) + (mantissa >> shift);
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  if (rest > half || (rest == half && (result & 1u) != 0)) ++result;
  constexpr uint32_t kLargest = kFinite ? kTop - 1 : kInfinity - 1;
  if (result > kLargest) return sign | (kFinite ? kLargest : kInfinity);
  return sign | result;
}

template <int kExponent, int kMantissa, bool kFinite>
constexpr float decode_float(uint32_t code) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kTop = (1u << (kExponent + kMantissa)) - 1;
  const uint32_t sign = ((code >> (kExponent + kMantissa)) & 1u) << 31;
  const uint32_t magnitude = code & kTop;
  const uint32_t exponent = magnitude >> kMantissa;
  const uint32_t mantissa = magnitude & ((1u << kMantissa) - 1);
  constexpr uint32_t kTopExponent = (1u << kExponent) - 1;
  if (kFinite ? magnitude == kTop : exponent == kTopExponent) {
    if (kFinite || mantissa != 0) return std::bit_cast<float>(sign | 0x7fc00000u);
    return std::bit_cast<float>(sign | 0x7f800000u);
  }
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^(1 - bias - mantissa bits)
    constexpr int kScale = 127 + 1 - kBias - kMantissa;
    static_assert(kScale > 0);
    const float scale = std::bit_cast<float>(static_cast<uint32_t>(kScale) << 23);
    const float value = static_cast<float>(mantissa) * scale;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 127u - kBias) << 23) |
                              (mantissa << (23 - kMantissa)));
}

}  // namespace detail

// Storage types: distinct, so that overloads and templates can distinguish them.
enum class float16_t : uint16_t {};
enum class bfloat16_t : uint16_t {};
enum class float8_e4m3_t : uint8_t {};
enum class float8_e5m2_t : uint8_t {};

constexpr float to_float(float16_t value) {
  return detail::decode_float<5, 10, false>(static_cast<uint32_t>(value));
}
constexpr float to_float(bfloat16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}
constexpr float to_float(float8_e4m3_t value) {
  return detail::decode_float<4, 3, true>(static_cast<uint32_t>(value));
}
constexpr float to_float(float8_e5m2_t value) {
  return detail::decode_float<5, 2, false>(static_cast<uint32_t>(value));
}

constexpr float16_t to_float16(float value) {
  return static_cast<float16_t>(detail::encode_float<5, 10, false>(value));
}
// Branch-free except for NaN, so that loops vectorise.
constexpr bfloat16_t to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<bfloat16_t>(nan ? (bits >> 16) | 0x40u : rounded);
}
// Values beyond 448 saturate.
constexpr float8_e4m3_t to_float8_e4m3(float value) {
  return static_cast<float8_e4m3_t>(detail::encode_float<4, 3, true>(value));
}
constexpr float8_e5m2_t to_float8_e5m2(float value) {
  return static_cast<float8_e5m2_t>(detail::encode_float<5, 2, false>(value));
}

}  // namespace keel

#endif  // KEEL_FLOAT_TYPES_HPP_
