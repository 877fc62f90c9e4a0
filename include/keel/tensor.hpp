// SPDX-License-Identifier: Apache-2.0
// Views of tensors. Included by keel.hpp, which states the rules for all of its parts.
#ifndef KEEL_TENSOR_HPP_
#define KEEL_TENSOR_HPP_

#include <keel/keel.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <keel/error.hpp>
#include <keel/float_types.hpp>
#include <span>
#include <string>

namespace keel {
inline namespace v0 {

// The dtype of a C++ element type.
template <typename Element>
inline constexpr keel_dtype dtype_of = KEEL_DTYPE_INVALID;
template <>
inline constexpr keel_dtype dtype_of<int8_t> = KEEL_INT8;
template <>
inline constexpr keel_dtype dtype_of<int16_t> = KEEL_INT16;
template <>
inline constexpr keel_dtype dtype_of<int32_t> = KEEL_INT32;
template <>
inline constexpr keel_dtype dtype_of<int64_t> = KEEL_INT64;
template <>
inline constexpr keel_dtype dtype_of<uint8_t> = KEEL_UINT8;
template <>
inline constexpr keel_dtype dtype_of<uint16_t> = KEEL_UINT16;
template <>
inline constexpr keel_dtype dtype_of<uint32_t> = KEEL_UINT32;
template <>
inline constexpr keel_dtype dtype_of<uint64_t> = KEEL_UINT64;
template <>
inline constexpr keel_dtype dtype_of<float> = KEEL_FLOAT32;
template <>
inline constexpr keel_dtype dtype_of<double> = KEEL_FLOAT64;
template <>
inline constexpr keel_dtype dtype_of<float16_t> = KEEL_FLOAT16;
template <>
inline constexpr keel_dtype dtype_of<bfloat16_t> = KEEL_BFLOAT16;
template <>
inline constexpr keel_dtype dtype_of<float8_e4m3_t> = KEEL_FLOAT8_E4M3FN;
template <>
inline constexpr keel_dtype dtype_of<float8_e5m2_t> = KEEL_FLOAT8_E5M2;

template <typename Type>
concept Element = dtype_of<Type>
!= KEEL_DTYPE_INVALID;

// A view of |shape| over device memory at |data|, borrowed. |strides| are in elements; empty:
// dense, row-major.
inline keel_tensor make_tensor(void* data, keel_dtype dtype, std::span<const int64_t> shape,
                               std::span<const int64_t> strides = {}) {
  if (shape.size() > KEEL_MAX_RANK) {
    throw Error(KEEL_INVALID_ARGUMENT, "tensor: rank " + std::to_string(shape.size()) +
                                           " is above " + std::to_string(KEEL_MAX_RANK));
  }
  if (!strides.empty() && strides.size() != shape.size()) {
    throw Error(KEEL_INVALID_ARGUMENT, "tensor: " + std::to_string(strides.size()) +
                                           " strides for rank " + std::to_string(shape.size()));
  }
  keel_tensor tensor = {};
  tensor.size = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(shape.size());
  tensor.data = data;
  int64_t dense = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    tensor.shape[axis] = shape[axis];
    tensor.strides[axis] = strides.empty() ? dense : strides[axis];
    dense *= shape[axis];
  }
  return tensor;
}
inline keel_tensor make_tensor(void* data, keel_dtype dtype, std::initializer_list<int64_t> shape,
                               std::initializer_list<int64_t> strides = {}) {
  return make_tensor(data, dtype, std::span(shape.begin(), shape.size()),
                     std::span(strides.begin(), strides.size()));
}

}  // namespace v0
}  // namespace keel

#endif  // KEEL_TENSOR_HPP_
