// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_scaled.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <cstdint>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;

// The 8-bit types in terms of float32's bits.
struct E4m3 {
  static constexpr int kShift = 20;                  // from its mantissa to float32's
  static constexpr uint32_t kRebias = 127 - 7;       // of exponents
  static constexpr float kLeast = 0x1p-6f;           // normal
  static constexpr float kStep = 0x1p-9f;            // of subnormals
  static constexpr uint32_t kLargest = 0x43e00000u;  // 448
  static constexpr uint32_t kLastFinite = 0x7e;      // code; then NaN
};
struct E5m2 {
  static constexpr int kShift = 21;
  static constexpr uint32_t kRebias = 127 - 15;
  static constexpr float kLeast = 0x1p-14f;
  static constexpr float kStep = 0x1p-16f;
  static constexpr uint32_t kLargest = 0x47600000u;  // 57344
  static constexpr uint32_t kLastFinite = 0x7b;      // then infinity, then NaN
};

uint32_t largest_magnitude_f32(const float* x, int64_t count) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const bits = reinterpret_cast<const uint32_t*>(x);
  const auto mask = hn::Set(d, kMagnitude);
  auto largest = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, bits + i), mask));
  }
  uint32_t result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) result = HWY_MAX(result, bits[i] & kMagnitude);
  return result;
}

template <class Type, class D>
HWY_INLINE void encode(D d, const float* x, float scale, uint8_t* y) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<uint8_t, D> d8;
  const auto bits = hn::BitCast(du, hn::Mul(hn::LoadU(d, x), hn::Set(d, scale)));
  const auto magnitude = hn::And(bits, hn::Set(du, kMagnitude));
  const auto held = hn::Min(magnitude, hn::Set(du, Type::kLargest));
  // Adds half of the last remaining place, a little less if that place is even.
  const auto odd = hn::And(hn::ShiftRight<Type::kShift>(held), hn::Set(du, 1));
  const auto half = hn::Set(du, (1u << (Type::kShift - 1)) - 1);
  const auto normal = hn::Sub(hn::ShiftRight<Type::kShift>(hn::Add(held, hn::Add(half, odd))),
                              hn::Set(du, Type::kRebias << (23 - Type::kShift)));
  // A number whose last place is the step of the subnormals: the sum rounds as subnormals do.
  const auto anchor = hn::Set(d, Type::kStep * 0x1p23f);
  const auto sum = hn::Add(hn::BitCast(d, held), anchor);
  const auto subnormal = hn::Sub(hn::BitCast(du, sum), hn::BitCast(du, anchor));
  const auto is_small = hn::Lt(held, hn::BitCast(du, hn::Set(d, Type::kLeast)));
  auto code = hn::IfThenElse(is_small, subnormal, normal);
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, kInfinityBits));
  code = hn::IfThenElse(is_nan, hn::Set(du, 0x7f), code);
  const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(du, 0x80));
  hn::StoreU(hn::DemoteTo(d8, hn::BitCast(hn::Rebind<int32_t, D>(), hn::Or(code, sign))), d8, y);
}

template <class Type, class D>
HWY_INLINE void decode(D d, const uint8_t* x, float* y) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint8_t, D> d8;
  const auto code = hn::PromoteTo(du, hn::LoadU(d8, x));
  const auto magnitude = hn::And(code, hn::Set(du, 0x7f));
  const auto shifted = hn::ShiftLeft<Type::kShift>(magnitude);
  const auto normal = hn::Add(shifted, hn::Set(du, Type::kRebias << 23));
  const auto steps = hn::ConvertTo(d, hn::BitCast(di, magnitude));
  const auto subnormal = hn::BitCast(du, hn::Mul(steps, hn::Set(d, Type::kStep)));
  const auto is_small = hn::Lt(shifted, hn::Set(du, 1u << 23));
  auto bits = hn::IfThenElse(is_small, subnormal, normal);
  const auto is_special = hn::Gt(magnitude, hn::Set(du, Type::kLastFinite));
  // All special codes are the quiet NaN, except the first of two or more, which is infinity.
  const auto is_infinite = hn::And(is_special, hn::Lt(magnitude, hn::Set(du, 0x7d)));
  bits = hn::IfThenElse(is_special, hn::Set(du, 0x7fc00000u), bits);
  bits = hn::IfThenElse(is_infinite, hn::Set(du, kInfinityBits), bits);
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80)));
  hn::StoreU(hn::BitCast(d, hn::Or(bits, sign)), d, y);
}

void scale_to_float8(keel_dtype dtype, const float* x, float scale, uint8_t* y, int64_t count) {
  if (dtype == KEEL_FLOAT8_E4M3FN) {
    for_each_vector(count,
                    [=](auto d, int64_t i) HWY_ATTR { encode<E4m3>(d, x + i, scale, y + i); });
  } else {
    for_each_vector(count,
                    [=](auto d, int64_t i) HWY_ATTR { encode<E5m2>(d, x + i, scale, y + i); });
  }
}

void float8_to_f32(keel_dtype dtype, const uint8_t* x, float* y, int64_t count) {
  if (dtype == KEEL_FLOAT8_E4M3FN) {
    for_each_vector(count, [=](auto d, int64_t i) HWY_ATTR { decode<E4m3>(d, x + i, y + i); });
  } else {
    for_each_vector(count, [=](auto d, int64_t i) HWY_ATTR { decode<E5m2>(d, x + i, y + i); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(largest_magnitude_f32);
HWY_EXPORT(scale_to_float8);
HWY_EXPORT(float8_to_f32);

uint32_t largest_magnitude_f32(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_magnitude_f32)(x, count);
}
void scale_to_float8(keel_dtype dtype, const float* x, float scale, uint8_t* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scale_to_float8)(dtype, x, scale, y, count);
}
void float8_to_f32(keel_dtype dtype, const uint8_t* x, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(float8_to_f32)(dtype, x, y, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
