// SPDX-License-Identifier: Apache-2.0
// The memory behind buffers.
#ifndef FRAMEWORKS_PYTHON_SRC_MEMORY_H_
#define FRAMEWORKS_PYTHON_SRC_MEMORY_H_

#include <keel/keel.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace keel_python {

// One range of a device's memory, shared by the buffers that view it: an allocation of Keel's, or
// memory of another library's array. Used with the GIL held.
class Memory {
 public:
  static std::shared_ptr<Memory> allocate(keel_device device, keel_memory_kind kind, uint64_t size);
  // Valid for work enqueued on |stream| from now on, and freed in the order of |stream|.
  static std::shared_ptr<Memory> allocate(keel_stream stream, keel_device device, uint64_t size);
  // Memory of |array|, |size| bytes at |data|, which stay the array's. Memory that Keel does not
  // know is registered with |device|, a CPU device, as long as this object lives.
  static std::shared_ptr<Memory> borrow(nanobind::ndarray<> array, keel_device device, void* data,
                                        uint64_t size);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  keel_device device() const { return device_; }
  uint64_t size() const { return size_; }
  // Throws KEEL_INVALID_HANDLE where is_closed().
  void* data() const;
  // After close(), and after the end of Keel: another allocation may have the same address then.
  bool is_closed() const { return is_closed_ || epoch_ != current_epoch_; }
  // Whether another library's array owns the memory.
  bool is_borrowed() const { return array_.has_value(); }
  // The host's address of data(); NULL where the host cannot reach the memory.
  void* host_alias() const;
  // Whether DLPack's device of the memory is the CPU: host_alias() is the address then.
  bool is_host_memory() const;
  // The side that keel_copy is given: registered memory of an array is the host's.
  keel_device copy_side() const {
    return is_registered_ || kind_ == KEEL_MEMORY_PINNED ? KEEL_HOST : device_;
  }

  // Frees the memory, or returns it to the array. Throws KEEL_FAILED_PRECONDITION while arrays of
  // other libraries share the memory.
  void close();

  // An object that counts as an array of another library as long as it lives.
  static nanobind::object new_export(const std::shared_ptr<Memory>& memory);
  // Number of such arrays of all memory.
  static int exports();
  // Closes all memory that exists: Keel has ended.
  static void end_epoch() { ++current_epoch_; }

 private:
  Memory(keel_device device, void* data, uint64_t size)
      : device_(device), data_(data), size_(size) {}

  void release();

  static inline uint64_t current_epoch_ = 0;

  keel_device device_;
  keel_stream stream_{};  // which frees the memory; id 0: none
  void* data_;
  uint64_t size_;
  keel_memory_kind kind_ = KEEL_MEMORY_DEVICE;
  std::optional<nanobind::ndarray<>> array_;
  bool is_registered_ = false;
  bool is_closed_ = false;
  uint64_t epoch_ = current_epoch_;
  int exports_ = 0;
};

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_MEMORY_H_
