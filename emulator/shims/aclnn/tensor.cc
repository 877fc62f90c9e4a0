// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/aclnn/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <limits>

namespace keel::emulator::aclnn {
namespace {

template <typename Stored>
Stored load(const std::byte* data) {
  Stored stored;
  std::memcpy(&stored, data, sizeof(stored));
  return stored;
}

template <typename Stored>
void store(std::byte* data, Stored stored) {
  std::memcpy(data, &stored, sizeof(stored));
}

template <typename Whole>
void store_saturated(std::byte* data, double value) {
  using Limits = std::numeric_limits<Whole>;
  if (std::isnan(value)) return store(data, Whole{0});
  if (value <= static_cast<double>(Limits::min())) return store(data, Limits::min());
  if (value >= static_cast<double>(Limits::max())) return store(data, Limits::max());
  store(data, static_cast<Whole>(value));
}

double load_element(aclDataType type, const std::byte* data) {
  switch (type) {
    case ACL_FLOAT:
      return load<float>(data);
    case ACL_FLOAT16:
      return to_float(load<float16_t>(data));
    case ACL_BF16:
      return to_float(load<bfloat16_t>(data));
    case ACL_FLOAT8_E5M2:
      return to_float(load<float8_e5m2_t>(data));
    case ACL_FLOAT8_E4M3FN:
      return to_float(load<float8_e4m3_t>(data));
    case ACL_DOUBLE:
      return load<double>(data);
    case ACL_INT8:
      return load<int8_t>(data);
    case ACL_BOOL:
      return load<uint8_t>(data) != 0 ? 1 : 0;
    case ACL_UINT8:
      return load<uint8_t>(data);
    case ACL_INT16:
      return load<int16_t>(data);
    case ACL_UINT16:
      return load<uint16_t>(data);
    case ACL_INT32:
      return load<int32_t>(data);
    case ACL_UINT32:
      return load<uint32_t>(data);
    case ACL_INT64:
      return static_cast<double>(load<int64_t>(data));
    default:
      return static_cast<double>(load<uint64_t>(data));
  }
}

void store_element(aclDataType type, std::byte* data, double value) {
  switch (type) {
    case ACL_FLOAT:
      return store(data, static_cast<float>(value));
    case ACL_FLOAT16:
      return store(data, to_float16(static_cast<float>(value)));
    case ACL_BF16:
      return store(data, to_bfloat16(static_cast<float>(value)));
    case ACL_FLOAT8_E5M2:
      return store(data, to_float8_e5m2(static_cast<float>(value)));
    case ACL_FLOAT8_E4M3FN:
      // The documents do not say that a larger value saturates: it is NaN here.
      return store(data, to_float8_e4m3(std::abs(value) < 464 ? static_cast<float>(value) : NAN));
    case ACL_DOUBLE:
      return store(data, value);
    case ACL_BOOL:
      return store(data, static_cast<uint8_t>(value != 0 ? 1 : 0));
    case ACL_INT8:
      return store_saturated<int8_t>(data, value);
    case ACL_UINT8:
      return store_saturated<uint8_t>(data, value);
    case ACL_INT16:
      return store_saturated<int16_t>(data, value);
    case ACL_UINT16:
      return store_saturated<uint16_t>(data, value);
    case ACL_INT32:
      return store_saturated<int32_t>(data, value);
    case ACL_UINT32:
      return store_saturated<uint32_t>(data, value);
    case ACL_INT64:
      return store_saturated<int64_t>(data, value);
    default:
      return store_saturated<uint64_t>(data, value);
  }
}

}  // namespace

uint32_t size_of(aclDataType type) {
  switch (type) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
      return 8;
    default:
      return 0;
  }
}

bool is_float8(aclDataType type) {
  return type == ACL_FLOAT8_E5M2 || type == ACL_FLOAT8_E4M3FN;
}

bool is_float(aclDataType type) {
  return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16 || type == ACL_DOUBLE;
}

bool broadcasts(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  const size_t skipped = to.size() - from.size();
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] != 1 && from[axis] != to[axis + skipped]) return false;
  }
  return true;
}

bool is_contiguous(const Tensor& tensor) {
  int64_t stride = 1;
  for (size_t axis = tensor.dims.size(); axis-- > 0;) {
    if (tensor.dims[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.dims[axis];
  }
  return true;
}

Operand::Operand(const Tensor& tensor)
    : tensor_(tensor), is_dense_(is_contiguous(tensor) && !tensor.is_fractal) {}

Status Operand::reach(Access& access) {
  if (tensor_.count() == 0) return {};
  int64_t last = 0;
  for (size_t axis = 0; axis < tensor_.dims.size(); ++axis) {
    last += (tensor_.dims[axis] - 1) * tensor_.strides[axis];
  }
  if (tensor_.is_fractal) {
    last = fractals(tensor_.dims[0]) * fractals(tensor_.dims[1]) * kFractal * kFractal - 1;
  }
  const uint64_t size = size_of(tensor_.type);
  return access.reach(tensor_.data + static_cast<uint64_t>(tensor_.offset) * size,
                      (static_cast<uint64_t>(last) + 1) * size, &data_);
}

int64_t Operand::place(const Dims& dims, int64_t index) const {
  if (is_dense_ && dims == tensor_.dims) return index;
  if (tensor_.is_fractal) {
    const int64_t row = index / dims[1];
    const int64_t column = index % dims[1];
    const int64_t block = column / kFractal * fractals(dims[0]) + row / kFractal;
    return (block * kFractal + row % kFractal) * kFractal + column % kFractal;
  }
  const size_t skipped = dims.size() - tensor_.dims.size();
  int64_t place = 0;
  for (size_t axis = dims.size(); axis-- > 0;) {
    const int64_t coordinate = index % dims[axis];
    index /= dims[axis];
    if (axis < skipped || tensor_.dims[axis - skipped] == 1) continue;
    place += coordinate * tensor_.strides[axis - skipped];
  }
  return place;
}

std::vector<double> Operand::read(const Dims& dims) const {
  std::vector<double> values(static_cast<size_t>(count_of(dims)));
  const int64_t size = size_of(tensor_.type);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_element(tensor_.type, data_ + place(dims, static_cast<int64_t>(i)) * size);
  }
  return values;
}

void Operand::write(const std::vector<double>& values) {
  const int64_t size = size_of(tensor_.type);
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* const to = data_ + place(tensor_.dims, static_cast<int64_t>(i)) * size;
    store_element(tensor_.type, to, values[i]);
  }
}

void Operand::write_whole(int64_t value) {
  const int64_t size = size_of(tensor_.type);
  for (int64_t i = 0; i < tensor_.count(); ++i) {
    std::memcpy(data_ + place(tensor_.dims, i) * size, &value, static_cast<size_t>(size));
  }
}

void Operand::copy(int64_t index, const Operand& from, const Dims& from_dims, int64_t from_index) {
  const int64_t size = size_of(tensor_.type);
  std::memcpy(data_ + place(tensor_.dims, index) * size,
              from.data_ + from.place(from_dims, from_index) * size, static_cast<size_t>(size));
}

}  // namespace keel::emulator::aclnn
