// SPDX-License-Identifier: Apache-2.0
#include "buffer.h"

#include <limits>

namespace keel_python {

uint64_t Buffer::count() const {
  uint64_t count = 1;
  for (const int64_t extent : shape()) count *= static_cast<uint64_t>(extent);
  return count;
}

uint64_t Buffer::extent() const {
  if (count() == 0) return 0;
  uint64_t last = 0;
  for (uint32_t axis = 0; axis < tensor_.rank; ++axis) {
    last += static_cast<uint64_t>((tensor_.shape[axis] - 1) * tensor_.strides[axis]);
  }
  return (last + 1) * dtype().size();
}

bool Buffer::is_dense() const {
  int64_t dense = 1;
  for (uint32_t axis = tensor_.rank; axis-- > 0;) {
    if (tensor_.shape[axis] != 1 && tensor_.strides[axis] != dense) return count() == 0;
    dense *= tensor_.shape[axis];
  }
  return true;
}

void* Buffer::dense_data(const std::string& what) const {
  if (!is_dense()) throw keel::Error(KEEL_INVALID_ARGUMENT, what + " is not dense");
  return static_cast<char*>(memory_->data()) + tensor_.byte_offset;
}

Buffer Buffer::view(const Dtype& dtype, const Extents& shape, const Extents& strides,
                    int64_t offset) const {
  (void)bytes_of(dtype, shape);
  keel_tensor view = keel::make_tensor(memory_->data(), dtype.code, shape, strides);
  const auto whole = static_cast<__int128>(memory_->size());
  const __int128 begin =
      static_cast<__int128>(tensor_.byte_offset) + static_cast<__int128>(offset) * dtype.size();
  __int128 elements = 1;
  bool is_empty = false;
  for (uint32_t axis = 0; axis < view.rank; ++axis) {
    if (view.strides[axis] < 0) {
      throw keel::Error(KEEL_INVALID_ARGUMENT, "view: a negative stride");
    }
    is_empty = is_empty || view.shape[axis] == 0;
    elements += static_cast<__int128>(view.shape[axis] - 1) * view.strides[axis];
  }
  const __int128 end = begin + (is_empty ? 0 : elements * dtype.size());
  if (begin < 0 || end > whole) {
    throw keel::Error(KEEL_OUT_OF_RANGE, "view: " + text_of(dtype, shape) + " at element " +
                                             std::to_string(offset) + " leaves the memory of " +
                                             std::to_string(memory_->size()) + " bytes");
  }
  if (begin % dtype.size() != 0) {
    throw keel::Error(KEEL_INVALID_ARGUMENT, "view: not aligned for " + std::string(dtype.name));
  }
  view.byte_offset = static_cast<uint64_t>(begin);
  return {memory_, view};
}

std::string text_of(const Dtype& dtype, std::span<const int64_t> shape) {
  std::string text = dtype.name;
  text += '[';
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  }
  return text + ']';
}

uint64_t bytes_of(const Dtype& dtype, std::span<const int64_t> shape) {
  __int128 bytes = static_cast<__int128>(dtype.size());
  constexpr auto kMost = static_cast<__int128>(std::numeric_limits<int64_t>::max());
  bool is_empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) {
      throw keel::Error(KEEL_INVALID_ARGUMENT, text_of(dtype, shape) + ": a negative extent");
    }
    if (extent == 0) {
      is_empty = true;
      continue;
    }
    bytes *= extent;
    if (bytes > kMost) {
      throw keel::Error(KEEL_OUT_OF_RANGE, text_of(dtype, shape) + " has too many bytes");
    }
  }
  return is_empty ? 0 : static_cast<uint64_t>(bytes);
}

}  // namespace keel_python
