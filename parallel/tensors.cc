// SPDX-License-Identifier: Apache-2.0
#include "parallel/tensors.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>

namespace keel::parallel {
namespace {

constexpr std::array<const char*, kUses> kUseNames = {"values", "gradients", "moments",
                                                      "activations"};

uint64_t element_of(keel_dtype dtype) {
  return dtype == KEEL_BFLOAT16 ? 2 : 4;  // else float32 or int32
}

void* moved(const keel_tensor& tensor, int64_t elements) {
  return static_cast<char*>(tensor.data) +
         elements * static_cast<int64_t>(element_of(static_cast<keel_dtype>(tensor.dtype)));
}

std::string mebibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// Text of a full device: the tensor that it could not take, then what it holds of this rank.
std::string full_text(std::initializer_list<int64_t> shape, uint64_t size, Use use,
                      const std::array<uint64_t, kUses>& held) {
  std::string text = "no memory for " + std::string(kUseNames[static_cast<size_t>(use)]) + " [";
  for (const int64_t axis : shape) {
    if (text.back() != '[') text += ", ";
    text += std::to_string(axis);
  }
  text += "], " + mebibytes(size) + "; this rank holds ";
  for (size_t i = 0; i < kUses; ++i) {
    text += (i == 0 ? "" : ", ") + std::string(kUseNames[i]) + " " + mebibytes(held[i]);
  }
  return text;
}

}  // namespace

Tensor::Block::Block(const Stream& stream, uint64_t size, Memory& owner, Use purpose)
    : memory(owner), buffer(stream, size), use(purpose) {
  memory.bytes_ += size;
  memory.bytes_of_[static_cast<size_t>(use)] += size;
  memory.peak_ = std::max(memory.peak_, memory.bytes_);
}

Tensor::Block::~Block() {
  memory.bytes_ -= buffer.size();
  memory.bytes_of_[static_cast<size_t>(use)] -= buffer.size();
}

Tensor Memory::take(std::initializer_list<int64_t> shape, keel_dtype dtype, Use use) {
  const int64_t count =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const uint64_t size = static_cast<uint64_t>(count) * element_of(dtype);
  Tensor tensor;
  try {
    tensor.block_ = std::make_shared<Tensor::Block>(stream_, size, *this, use);
  } catch (const Error& error) {
    if (error.status() != KEEL_OUT_OF_MEMORY) throw;
    throw Error(KEEL_OUT_OF_MEMORY,
                full_text(shape, size, use, bytes_of_) + " (" + text_of(error) + ")");
  }
  tensor.view_ = make_tensor(tensor.block_->buffer.data(), dtype, shape);
  return tensor;
}

Tensor Memory::zeroes(std::initializer_list<int64_t> shape, Use use) {
  Tensor tensor = take(shape, KEEL_FLOAT32, use);
  clear(stream_, tensor);
  return tensor;
}

std::string text_of(const Error& error) {
  const std::string text = error.what(), prefix = keel_status_name(error.status());
  return text.starts_with(prefix + ": ") ? text.substr(prefix.size() + 2) : text;
}

keel_tensor reshaped(const keel_tensor& tensor, std::initializer_list<int64_t> shape) {
  return make_tensor(tensor.data, static_cast<keel_dtype>(tensor.dtype), shape);
}

keel_tensor rows_of(const keel_tensor& matrix, int64_t first, int64_t count) {
  return make_tensor(moved(matrix, first * matrix.shape[1]), static_cast<keel_dtype>(matrix.dtype),
                     {count, matrix.shape[1]});
}

keel_tensor elements_of(const keel_tensor& tensor, int64_t first, int64_t count) {
  return make_tensor(moved(tensor, first), static_cast<keel_dtype>(tensor.dtype), {count});
}

int64_t count_of(const keel_tensor& tensor) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

void clear(const Stream& stream, const keel_tensor& tensor) {
  const uint32_t zero = 0;
  check(keel_fill(
      stream.get(), tensor.data, &zero, sizeof(zero),
      static_cast<uint64_t>(count_of(tensor)) * element_of(static_cast<keel_dtype>(tensor.dtype))));
}

}  // namespace keel::parallel
