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

template <typename T, typename From, int n>
KEEL_SIMT_FUNCTION void load_from(Address address, uint64_t at, GroupAccess access, uint64_t step,
                                  T (&out)[n]) {
  const Global<const From> x(address);
  if (n > 1 && access == GroupAccess::vector) {
    const Lanes<From, n> lanes = x.template load<n>(at);
    for (int lane = 0; lane < n; ++lane) out[lane] = convert_from<T>(lanes.at[lane]);
  } else if (n > 1 && access == GroupAccess::splat) {
    const T value = convert_from<T>(x[at]);
    for (int lane = 0; lane < n; ++lane) out[lane] = value;
  } else {
    Plain<From> some[n];
    for (int lane = 0; lane < n; ++lane) some[lane] = x[at + lane * step];
    for (int lane = 0; lane < n; ++lane) out[lane] = convert_from<T>(some[lane]);
  }
}

// Loads |n| elements from |at| on, |step| apart. |type| is one that |T| is computed of: no other
// integers for int64_t, nor float64 for float.
template <typename T, int n>
KEEL_SIMT_FUNCTION void load_group(ElementType type, Address address, uint64_t at,
                                   GroupAccess access, uint64_t step, T (&out)[n]) {
  if constexpr (IsDouble<T>::value) {
    if (type == ElementType::f64) {
      load_from<T, double, n>(address, at, access, step, out);
      return;
    }
  }
  if constexpr (!IsInteger<T>::value) {
    switch (type) {
      case ElementType::f32:
        load_from<T, float, n>(address, at, access, step, out);
        return;
      case ElementType::f16:
        load_from<T, f16, n>(address, at, access, step, out);
        return;
      case ElementType::bf16:
        load_from<T, bf16, n>(address, at, access, step, out);
        return;
      default:
        break;
    }
  }
  switch (type) {
    case ElementType::i64:
      load_from<T, int64_t, n>(address, at, access, step, out);
      return;
    case ElementType::i32:
      load_from<T, int32_t, n>(address, at, access, step, out);
      return;
    case ElementType::i16:
      load_from<T, int16_t, n>(address, at, access, step, out);
      return;
    case ElementType::i8:
      load_from<T, int8_t, n>(address, at, access, step, out);
      return;
    default:
      load_from<T, uint8_t, n>(address, at, access, step, out);
      return;
  }
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
  if constexpr (IsDouble<T>::value) {
    if (type == ElementType::f64) {
      store_to<T, double, n>(address, at, access, step, values);
      return;
    }
  }
  if constexpr (!IsInteger<T>::value) {
    switch (type) {
      case ElementType::f32:
        store_to<T, float, n>(address, at, access, step, values);
        return;
      case ElementType::f16:
        store_to<T, f16, n>(address, at, access, step, values);
        return;
      case ElementType::bf16:
        store_to<T, bf16, n>(address, at, access, step, values);
        return;
      default:
        break;
    }
  }
  switch (type) {
    case ElementType::i64:
      store_to<T, int64_t, n>(address, at, access, step, values);
      return;
    case ElementType::i32:
      store_to<T, int32_t, n>(address, at, access, step, values);
      return;
    case ElementType::i16:
      store_to<T, int16_t, n>(address, at, access, step, values);
      return;
    case ElementType::i8:
      store_to<T, int8_t, n>(address, at, access, step, values);
      return;
    default:
      store_to<T, uint8_t, n>(address, at, access, step, values);
      return;
  }
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
