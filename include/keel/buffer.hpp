// SPDX-License-Identifier: Apache-2.0
// Memory. Included by keel.hpp, which states the rules for all of its parts.
#ifndef KEEL_BUFFER_HPP_
#define KEEL_BUFFER_HPP_

#include <keel/keel.h>

#include <cstdint>
#include <initializer_list>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/tensor.hpp>
#include <utility>

namespace keel {
inline namespace v0 {

class Stream;

// One allocation of |size| bytes, not zeroed. Freeing does not wait: Keel reuses the memory once
// the work enqueued before is done. Analogue: cudaMalloc and its cudaFree.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, keel_memory_kind kind, uint64_t size) : device_(device), size_(size) {
    check(keel_alloc(device.get(), kind, size, &data_));
  }
  // Device memory for work enqueued on |stream| from now on. The destructor frees the memory in the
  // stream's order, without a wait, or with keel_free if the stream is gone.
  Buffer(const Stream& stream, uint64_t size);
  // Room for |count| elements.
  template <Element Type>
  static Buffer of(Device device, uint64_t count, keel_memory_kind kind = KEEL_MEMORY_DEVICE) {
    return Buffer(device, kind, count * sizeof(Type));
  }
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        stream_(other.stream_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ == nullptr) return;
    if (stream_.id != 0 && keel_free_on_stream(stream_, data_) == KEEL_OK) return;
    (void)keel_free(device_.get(), data_);
  }

  Device device() const { return device_; }
  uint64_t size() const { return size_; }
  // A device address; the host may use it where the memory is pinned or managed.
  void* data() const { return data_; }
  // The host's address of the same memory; NULL where the host cannot reach the memory.
  void* host_alias() const {
    if (data_ == nullptr) return nullptr;  // of no bytes
    keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    check(keel_memory_find(device_.get(), data_, &info));
    return info.host_alias;
  }

  // The beginning of the buffer as a dense tensor.
  keel_tensor tensor(keel_dtype dtype, std::initializer_list<int64_t> shape) const {
    return make_tensor(data_, dtype, shape);
  }
  template <Element Type>
  keel_tensor tensor(std::initializer_list<int64_t> shape) const {
    return make_tensor(data_, dtype_of<Type>, shape);
  }

 private:
  Device device_;
  keel_stream stream_{};  // stream that frees |data_|; id 0: none
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace v0
}  // namespace keel

#endif  // KEEL_BUFFER_HPP_
