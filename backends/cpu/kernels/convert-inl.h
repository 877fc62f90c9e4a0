// SPDX-License-Identifier: Apache-2.0
// Conversions between the dtypes and a compute type: float, double or int64_t.
// Included by kernels_family_*.cc after <hwy/highway.h>, once per instruction set.
#if defined(KEEL_BACKENDS_CPU_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_CONVERT_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_CONVERT_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <keel/float_types.hpp>
#include <type_traits>

#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/kernels.h"

// Iterations of the loop below are independent, also where its arrays are the same.
#ifndef KEEL_INDEPENDENT
#ifdef __clang__
#define KEEL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define KEEL_INDEPENDENT _Pragma("GCC ivdep")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {

template <typename Element>
inline constexpr bool kIs16BitFloat =
    std::is_same_v<Element, float16_t> || std::is_same_v<Element, bfloat16_t>;
template <typename Element>
inline constexpr keel_dtype kDtypeOf16Bit =
    std::is_same_v<Element, float16_t> ? KEEL_FLOAT16 : KEEL_BFLOAT16;

// |value| as float32 such that rounding the result to a type of at most 22 bits rounds |value|
// once: to the neighbour with an odd last bit, where |value| is no float32.
HWY_INLINE float to_odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  if (!(static_cast<double>(nearest) != value) || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// |value| truncated. Beyond int32 (int64 for an int64 element) it saturates first; NaN gives any
// number.
template <typename Element, typename Float>
HWY_INLINE Element truncated(Float value) {
  if constexpr (std::is_same_v<Element, int64_t>) {
    if (value >= Float{0x1p63}) return INT64_MAX;
    return value >= Float{-0x1p63} ? static_cast<int64_t>(value) : INT64_MIN;
  } else {
    // The largest Float below 2^31.
    constexpr Float kTop =
        std::is_same_v<Float, float> ? Float{0x1.fffffep30} : Float(0x1.fffffffcp30);
    const Float raised = value > Float{-0x1p31} ? value : Float{-0x1p31};
    return static_cast<Element>(static_cast<int32_t>(raised < kTop ? raised : kTop));
  }
}

template <typename Element, typename Number>
void load_numbers(const void* source, Number* to, int64_t count) {
  const auto* const from = static_cast<const Element*>(source);
  if constexpr (kIs16BitFloat<Element>) {
    if constexpr (std::is_same_v<Number, float>) {
      cast_function(kDtypeOf16Bit<Element>, KEEL_FLOAT32)(source, to, count);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Number>(to_float(from[i]));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Number>(from[i]);
  }
}

template <typename Element, typename Number>
void store_numbers(const Number* from, void* target, int64_t count) {
  auto* const to = static_cast<Element*>(target);
  if constexpr (kIs16BitFloat<Element>) {
    if constexpr (std::is_same_v<Number, float>) {
      cast_function(KEEL_FLOAT32, kDtypeOf16Bit<Element>)(from, target, count);
    } else if constexpr (std::is_same_v<Element, float16_t>) {
      for (int64_t i = 0; i < count; ++i) to[i] = to_float16(to_odd_float(from[i]));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = to_bfloat16(to_odd_float(from[i]));
    }
  } else if constexpr (std::is_integral_v<Element> && std::is_floating_point_v<Number>) {
    for (int64_t i = 0; i < count; ++i) to[i] = truncated<Element>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Element>(from[i]);
  }
}

template <typename Element, typename Number>
constexpr void add_conversions(keel_dtype dtype, Family<Number>* out_family) {
  out_family->load[dtype] = load_numbers<Element, Number>;
  out_family->store[dtype] = store_numbers<Element, Number>;
}

template <typename Number>
constexpr void add_all_conversions(Family<Number>* out_family) {
  add_conversions<int8_t>(KEEL_INT8, out_family);
  add_conversions<uint8_t>(KEEL_UINT8, out_family);
  add_conversions<int16_t>(KEEL_INT16, out_family);
  add_conversions<int32_t>(KEEL_INT32, out_family);
  if constexpr (std::is_floating_point_v<Number>) {
    add_conversions<int64_t>(KEEL_INT64, out_family);
    add_conversions<float16_t>(KEEL_FLOAT16, out_family);
    add_conversions<bfloat16_t>(KEEL_BFLOAT16, out_family);
  }
  if constexpr (std::is_same_v<Number, double>) add_conversions<float>(KEEL_FLOAT32, out_family);
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_CONVERT_INL_H_
