// SPDX-License-Identifier: Apache-2.0
#include "parallel/tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace keel::parallel {
namespace {

constexpr uint64_t kElement = 4;

void* moved(void* data, int64_t elements) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(kElement);
}

}  // namespace

Tensor::Block::Block(const Stream& stream, uint64_t size, Memory& owner)
    : memory(owner), buffer(stream, size) {
  memory.bytes_ += size;
  memory.peak_ = std::max(memory.peak_, memory.bytes_);
}

Tensor::Block::~Block() {
  memory.bytes_ -= buffer.size();
}

Tensor Memory::take(std::initializer_list<int64_t> shape, keel_dtype dtype) {
  const int64_t count =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  Tensor tensor;
  tensor.block_ =
      std::make_shared<Tensor::Block>(stream_, static_cast<uint64_t>(count) * kElement, *this);
  tensor.view_ = make_tensor(tensor.block_->buffer.data(), dtype, shape);
  return tensor;
}

Tensor Memory::zeroes(std::initializer_list<int64_t> shape) {
  Tensor tensor = take(shape);
  clear(stream_, tensor);
  return tensor;
}

keel_tensor reshaped(const keel_tensor& tensor, std::initializer_list<int64_t> shape) {
  return make_tensor(tensor.data, static_cast<keel_dtype>(tensor.dtype), shape);
}

keel_tensor rows_of(const keel_tensor& matrix, int64_t first, int64_t count) {
  return make_tensor(moved(matrix.data, first * matrix.shape[1]),
                     static_cast<keel_dtype>(matrix.dtype), {count, matrix.shape[1]});
}

keel_tensor elements_of(const keel_tensor& tensor, int64_t first, int64_t count) {
  return make_tensor(moved(tensor.data, first), static_cast<keel_dtype>(tensor.dtype), {count});
}

int64_t count_of(const keel_tensor& tensor) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

void clear(const Stream& stream, const keel_tensor& tensor) {
  const uint32_t zero = 0;
  check(keel_fill(stream.get(), tensor.data, &zero, sizeof(zero),
                  static_cast<uint64_t>(count_of(tensor)) * kElement));
}

}  // namespace keel::parallel
