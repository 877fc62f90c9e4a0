// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_cast.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <keel/float_types.hpp>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One element.
HWY_INLINE float widen(float value) {
  return value;
}
HWY_INLINE float widen(float16_t value) {
  return to_float(value);
}
HWY_INLINE float widen(bfloat16_t value) {
  return to_float(value);
}
HWY_INLINE float widen(int32_t value) {
  return static_cast<float>(value);
}

HWY_INLINE void narrow(float value, float* out) {
  *out = value;
}
HWY_INLINE void narrow(float value, float16_t* out) {
  *out = to_float16(value);
}
HWY_INLINE void narrow(float value, bfloat16_t* out) {
  *out = to_bfloat16(value);
}
HWY_INLINE void narrow(float value, int32_t* out) {
  constexpr float kLimit = 2147483648.0f;
  if (value >= kLimit) {
    *out = INT32_MAX;
  } else if (value < -kLimit) {
    *out = INT32_MIN;
  } else {
    *out = value == value ? static_cast<int32_t>(value) : 0;
  }
}

template <typename From, typename To>
void cast(const void* from, void* to, int64_t count) {
  const auto* const x = static_cast<const From*>(from);
  auto* const y = static_cast<To*>(to);
  int64_t i = 0;
// From AVX2 on, float16 uses the processor's conversions. The compiler vectorises all other cases,
// bfloat16 included.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, float16_t>) {
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, x + i)), d16,
                 reinterpret_cast<hwy::float16_t*>(y + i));
    }
  }
  if constexpr (std::is_same_v<From, float16_t> && std::is_same_v<To, float>) {
    for (; i + lanes <= count; i += lanes) {
      const auto half = hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(x + i));
      hn::StoreU(hn::PromoteTo(d, half), d, y + i);
    }
  }
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, bfloat16_t>) {
    for (; i + lanes <= count; i += lanes) store_floats(d, hn::LoadU(d, x + i), y + i);
  }
  if constexpr (std::is_same_v<From, bfloat16_t> && std::is_same_v<To, float>) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(load_floats(d, x + i), d, y + i);
  }
#endif
  for (; i < count; ++i) narrow(widen(x[i]), &y[i]);
}

template <typename From>
CastFunction cast_from(keel_dtype to) {
  switch (to) {
    case KEEL_FLOAT32:
      return cast<From, float>;
    case KEEL_FLOAT16:
      return cast<From, float16_t>;
    case KEEL_BFLOAT16:
      return cast<From, bfloat16_t>;
    default:
      return nullptr;
  }
}

CastFunction cast_function(keel_dtype from, keel_dtype to) {
  switch (from) {
    case KEEL_FLOAT32:
      return to == KEEL_INT32 ? cast<float, int32_t> : cast_from<float>(to);
    case KEEL_FLOAT16:
      return cast_from<float16_t>(to);
    case KEEL_BFLOAT16:
      return cast_from<bfloat16_t>(to);
    case KEEL_INT32:
      return to == KEEL_FLOAT32 ? cast<int32_t, float> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(cast_function);

CastFunction cast_function(keel_dtype from, keel_dtype to) {
  return HWY_DYNAMIC_DISPATCH(cast_function)(from, to);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
