// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <keel/keel.hpp>
#include <string>
#include <utility>

#include "device.h"

namespace nb = nanobind;

namespace keel_python {
namespace {

int all_exports = 0;

keel_memory_info find(keel_device device, const void* data) {
  keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  keel::check(keel_memory_find(device, data, &info));
  return info;
}

}  // namespace

std::shared_ptr<Memory> Memory::allocate(keel_device device, keel_memory_kind kind, uint64_t size) {
  void* data = nullptr;
  {
    const nb::gil_scoped_release released;  // a driver may take long
    keel::check(keel_alloc(device, kind, size, &data));
  }
  std::shared_ptr<Memory> memory(new Memory(device, data, size));
  memory->kind_ = kind;
  return memory;
}

std::shared_ptr<Memory> Memory::allocate(keel_stream stream, keel_device device, uint64_t size) {
  void* data = nullptr;
  {
    const nb::gil_scoped_release released;
    keel::check(keel_alloc_on_stream(stream, size, &data));
  }
  std::shared_ptr<Memory> memory(new Memory(device, data, size));
  memory->stream_ = stream;
  return memory;
}

std::shared_ptr<Memory> Memory::borrow(nb::ndarray<> array, keel_device device, void* data,
                                       uint64_t size) {
  std::shared_ptr<Memory> memory(new Memory(device, data, size));
  memory->array_ = std::move(array);
  keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  if (size == 0 || keel_memory_find(device, data, &info) == KEEL_OK) return memory;
  if (memory->array_->device_type() != nb::device::cpu::value) {
    throw keel::Error(KEEL_UNSUPPORTED, "from_dlpack: the memory is not of Keel on " +
                                            keel::Device(device).name() +
                                            ", and no host memory that it could share");
  }
  if (const keel_status status = keel_host_register(device, data, size); status != KEEL_OK) {
    throw keel::Error(
        status, "from_dlpack: " + std::string(keel_last_error()) + "; from_numpy() copies instead");
  }
  memory->is_registered_ = true;
  return memory;
}

Memory::~Memory() {
  if (!is_closed()) release();
}

void Memory::release() {
  is_closed_ = true;
  if (array_) {
    // A collective that another rank still reads for: the array must outlive this process's use.
    if (is_registered_ && keel_host_unregister(device_, data_) == KEEL_FAILED_PRECONDITION) {
      (void)new nb::ndarray<>(std::move(*array_));
    }
    array_.reset();
    return;
  }
  if (data_ == nullptr) return;
  if (stream_.id != 0 && keel_free_on_stream(stream_, data_) == KEEL_OK) return;
  (void)keel_free(device_, data_);
}

void* Memory::data() const {
  if (is_closed()) throw keel::Error(KEEL_INVALID_HANDLE, "the buffer is closed");
  return data_;
}

void* Memory::host_alias() const {
  void* const start = data();
  if (is_registered_ || size_ == 0) return start;
  const keel_memory_info info = find(device_, start);
  if (info.host_alias == nullptr) return nullptr;
  return static_cast<char*>(info.host_alias) +
         (static_cast<char*>(start) - static_cast<char*>(info.base));
}

bool Memory::is_host_memory() const {
  return is_registered_ || kind_ == KEEL_MEMORY_PINNED ||
         dlpack_device(keel::Device(device_)).device_type == nb::device::cpu::value;
}

void Memory::close() {
  if (is_closed()) return;
  if (exports_ != 0) {
    throw keel::Error(KEEL_FAILED_PRECONDITION, "close: " + std::to_string(exports_) +
                                                    " arrays of other libraries share the memory");
  }
  release();
}

nb::object Memory::new_export(const std::shared_ptr<Memory>& memory) {
  auto* const shared = new std::shared_ptr<Memory>(memory);
  ++memory->exports_;
  ++all_exports;
  return nb::capsule(shared, [](void* pointer) noexcept {
    const std::unique_ptr<std::shared_ptr<Memory>> shared(
        static_cast<std::shared_ptr<Memory>*>(pointer));
    --(*shared)->exports_;
    --all_exports;
  });
}

int Memory::exports() {
  return all_exports;
}

}  // namespace keel_python
