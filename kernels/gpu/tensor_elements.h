// SPDX-License-Identifier: Apache-2.0
// Access to tensors of any dtype and strides: elements are converted from and to the type of the
// computation, |T|, which is float, double or int64_t.
#ifndef KEEL_KERNELS_GPU_TENSOR_ELEMENTS_H_
#define KEEL_KERNELS_GPU_TENSOR_ELEMENTS_H_

#include <cstring>

#include "kernels/gpu/simt.h"
#include "kernels/gpu/tensor_arguments.h"

namespace keel::simt {

template <typename T>
struct IsInteger {
  static constexpr bool value = false;
};
template <>
struct IsInteger<int64_t> {
  static constexpr bool value = true;
};

template <typename T>
struct IsDouble {
  static constexpr bool value = false;
};
template <>
struct IsDouble<double> {
  static constexpr bool value = true;
};

// ---- conversions ---------------------------------------------------------------

template <typename T, typename From>
KEEL_SIMT_FUNCTION T convert_from(From value) {
  return static_cast<T>(value);
}
template <typename T>
KEEL_SIMT_FUNCTION T convert_from(f16 value) {
  return static_cast<T>(to_float(value));
}
template <typename T>
KEEL_SIMT_FUNCTION T convert_from(bf16 value) {
  return static_cast<T>(to_float(value));
}

// Truncates; saturates beyond the range; NaN gives 0.
template <typename T>
KEEL_SIMT_FUNCTION int64_t to_i64(T value) {
  if (!(value == value)) return 0;
  if (value <= static_cast<T>(-0x1p63)) return INT64_MIN;
  return value >= static_cast<T>(0x1p63) ? INT64_MAX : static_cast<int64_t>(value);
}
KEEL_SIMT_FUNCTION int64_t to_i64(int64_t value) {
  return value;
}

// Returns a float that rounds to 16 bits as |value| does: of the neighbours of an inexact result
// the one with an odd last bit, which lies between the ties.
KEEL_SIMT_FUNCTION float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || !(value == value)) return nearest;
  uint32_t bits;
  memcpy(&bits, &nearest, sizeof(bits));
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --bits;
  bits |= 1;
  float odd;
  memcpy(&odd, &bits, sizeof(odd));
  return odd;
}
KEEL_SIMT_FUNCTION float round_to_odd(float value) {
  return value;
}

template <typename To>
struct ConvertTo {
  template <typename T>
  KEEL_SIMT_FUNCTION static To from(T value) {
    return static_cast<To>(to_i64(value));  // wraps
  }
};
template <>
struct ConvertTo<float> {
  template <typename T>
  KEEL_SIMT_FUNCTION static float from(T value) {
    return static_cast<float>(value);
  }
};
template <>
struct ConvertTo<double> {
  template <typename T>
  KEEL_SIMT_FUNCTION static double from(T value) {
    return static_cast<double>(value);
  }
};
template <>
struct ConvertTo<f16> {
  template <typename T>
  KEEL_SIMT_FUNCTION static f16 from(T value) {
    return to_f16(round_to_odd(value));
  }
};
template <>
struct ConvertTo<bf16> {
  template <typename T>
  KEEL_SIMT_FUNCTION static bf16 from(T value) {
    return to_bf16(round_to_odd(value));
  }
};

// ---- groups --------------------------------------------------------------------

template <typename T, typename From, int n, int groups>
KEEL_SIMT_FUNCTION void load_from(Address address, const uint64_t (&at)[groups], GroupAccess access,
                                  uint64_t step, T (&out)[groups][n]) {
  const Global<const From> x(address);
  // All loads before the first conversion, which waits for one.
  Lanes<Plain<From>, n> lanes[groups];
  if (n > 1 && access == GroupAccess::vector) {
    for (int g = 0; g < groups; ++g) lanes[g] = x.template load<n>(at[g]);
  } else if (n > 1 && access == GroupAccess::splat) {
    for (int g = 0; g < groups; ++g) {
      const Plain<From> value = x[at[g]];
      for (int lane = 0; lane < n; ++lane) lanes[g].at[lane] = value;
    }
  } else {
    for (int g = 0; g < groups; ++g) {
      for (int lane = 0; lane < n; ++lane) lanes[g].at[lane] = x[at[g] + lane * step];
    }
  }
  for (int g = 0; g < groups; ++g) {
    for (int lane = 0; lane < n; ++lane) out[g][lane] = convert_from<T>(lanes[g].at[lane]);
  }
}

// Loads |groups| times |n| elements, from each of |at| on, |step| apart. |type| is one that |T| is
// computed of: integers for int64_t, any but float64 for float.
template <typename T, int n, int groups>
KEEL_SIMT_FUNCTION void load_groups(ElementType type, Address address, const uint64_t (&at)[groups],
                                    GroupAccess access, uint64_t step, T (&out)[groups][n]) {
#define KEEL_SIMT_LOAD(name, From)                                 \
  case ElementType::name:                                          \
    load_from<T, From, n, groups>(address, at, access, step, out); \
    return;
  if constexpr (IsDouble<T>::value) {
    if (type == ElementType::f64) {
      load_from<T, double, n, groups>(address, at, access, step, out);
      return;
    }
  }
  if constexpr (!IsInteger<T>::value) {
    switch (type) {
      KEEL_SIMT_LOAD(f32, float)
      KEEL_SIMT_LOAD(f16, f16)
      KEEL_SIMT_LOAD(bf16, bf16)
      default:
        break;
    }
  }
  switch (type) {
    KEEL_SIMT_LOAD(i64, int64_t)
    KEEL_SIMT_LOAD(i32, int32_t)
    KEEL_SIMT_LOAD(i16, int16_t)
    KEEL_SIMT_LOAD(i8, int8_t)
    default:
      load_from<T, uint8_t, n, groups>(address, at, access, step, out);
      return;
  }
#undef KEEL_SIMT_LOAD
}

template <typename T, typename To, int n>
KEEL_SIMT_FUNCTION void store_to(Address address, uint64_t at, GroupAccess access, uint64_t step,
                                 const T (&values)[n]) {
  const Global<To> y(address);
  Lanes<To, n> lanes;
  for (int lane = 0; lane < n; ++lane) lanes.at[lane] = ConvertTo<To>::from(values[lane]);
  if (n > 1 && access == GroupAccess::vector) {
    y.template store<n>(at, lanes);
  } else {
    for (int lane = 0; lane < n; ++lane) y[at + lane * step] = lanes.at[lane];
  }
}

// Stores |n| elements from |at| on, |step| apart: floats from float and double, float64 from
// double.
template <typename T, int n>
KEEL_SIMT_FUNCTION void store_group(ElementType type, Address address, uint64_t at,
                                    GroupAccess access, uint64_t step, const T (&values)[n]) {
#define KEEL_SIMT_STORE(name, To)                          \
  case ElementType::name:                                  \
    store_to<T, To, n>(address, at, access, step, values); \
    return;
  if constexpr (IsDouble<T>::value) {
    if (type == ElementType::f64) {
      store_to<T, double, n>(address, at, access, step, values);
      return;
    }
  }
  if constexpr (!IsInteger<T>::value) {
    switch (type) {
      KEEL_SIMT_STORE(f32, float)
      KEEL_SIMT_STORE(f16, f16)
      KEEL_SIMT_STORE(bf16, bf16)
      default:
        break;
    }
  }
  switch (type) {
    KEEL_SIMT_STORE(i64, int64_t)
    KEEL_SIMT_STORE(i32, int32_t)
    KEEL_SIMT_STORE(i16, int16_t)
    KEEL_SIMT_STORE(i8, int8_t)
    default:
      store_to<T, uint8_t, n>(address, at, access, step, values);
      return;
  }
#undef KEEL_SIMT_STORE
}

// ---- places --------------------------------------------------------------------

KEEL_SIMT_FUNCTION uint32_t divide(uint32_t number, const Divider& divider) {
  const uint64_t product = uint64_t{number} * divider.multiplier;
  return (static_cast<uint32_t>(product >> 32) + number) >> divider.shift;
}

// Adds to |offsets| where |index| of the |count| axes, the last one fastest, is in each tensor.
template <uint32_t tensors>
KEEL_SIMT_FUNCTION void add_offsets(const Axis<tensors> (&axes)[kMaxAxes], uint32_t count,
                                    bool is_small, uint64_t index, uint64_t (&offsets)[tensors]) {
  for (uint32_t axis = count; axis-- > 1;) {
    uint64_t rest;
    if (is_small) {
      rest = divide(static_cast<uint32_t>(index), axes[axis].divider);
    } else {
      rest = index / axes[axis].extent;
    }
    const uint64_t own = index - rest * axes[axis].extent;
    for (uint32_t i = 0; i < tensors; ++i) offsets[i] += own * axes[axis].strides[i];
    index = rest;
  }
  if (count == 0) return;
  for (uint32_t i = 0; i < tensors; ++i) offsets[i] += index * axes[0].strides[i];
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_TENSOR_ELEMENTS_H_
