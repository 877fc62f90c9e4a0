// SPDX-License-Identifier: Apache-2.0
// Class Buffer of the module: a tensor in a device's memory.
#ifndef FRAMEWORKS_PYTHON_SRC_BUFFER_H_
#define FRAMEWORKS_PYTHON_SRC_BUFFER_H_

#include <keel/keel.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <keel/keel.hpp>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtypes.h"
#include "memory.h"

namespace keel_python {

// A view of memory, which several buffers may share.
class Buffer {
 public:
  using Extents = std::vector<int64_t>;

  // A dense tensor at the beginning of |memory|.
  Buffer(std::shared_ptr<Memory> memory, const Dtype& dtype, const Extents& shape)
      : memory_(std::move(memory)),
        tensor_(keel::make_tensor(memory_->data(), dtype.code, shape)) {}
  Buffer(std::shared_ptr<Memory> memory, const keel_tensor& tensor)
      : memory_(std::move(memory)), tensor_(tensor) {}

  const std::shared_ptr<Memory>& memory() const { return memory_; }
  keel::Device device() const { return keel::Device(memory_->device()); }
  // Throws KEEL_INVALID_HANDLE after close().
  const keel_tensor& tensor() const {
    (void)memory_->data();
    return tensor_;
  }
  const Dtype& dtype() const { return dtype_of(tensor_.dtype); }
  std::span<const int64_t> shape() const { return {tensor_.shape, tensor_.rank}; }
  std::span<const int64_t> strides() const { return {tensor_.strides, tensor_.rank}; }
  uint64_t count() const;  // elements
  uint64_t bytes() const { return count() * dtype().size(); }
  // Bytes from the first element to the end of the last.
  uint64_t extent() const;
  // Row-major without gaps.
  bool is_dense() const;
  // The address of the first element, of a dense buffer; throws KEEL_INVALID_ARGUMENT with |what|
  // and the name of the argument for any other.
  void* dense_data(const std::string& what) const;

  // Another view of the memory; |strides| empty: dense. |offset|: elements of |dtype| from this
  // view's first. Throws KEEL_OUT_OF_RANGE if the view leaves the memory.
  Buffer view(const Dtype& dtype, const Extents& shape, const Extents& strides,
              int64_t offset) const;

 private:
  std::shared_ptr<Memory> memory_;
  keel_tensor tensor_;
};

// "float32[2, 3]"
std::string text_of(const Dtype& dtype, std::span<const int64_t> shape);
// Bytes of a dense tensor. Throws KEEL_INVALID_ARGUMENT for negative extents, KEEL_OUT_OF_RANGE for
// more bytes than an address has.
uint64_t bytes_of(const Dtype& dtype, std::span<const int64_t> shape);

void add_buffer(nanobind::module_& module);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_BUFFER_H_
