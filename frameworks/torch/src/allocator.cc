// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <keel/keel.h>

#include "runtime.h"

namespace keel_torch {

namespace {

// Smaller tensors travel inside the descriptor of an operation, whatever their memory.
constexpr size_t kSmallest = 16 << 10;

// Above the priority of PyTorch's own allocators.
constexpr uint8_t kPriority = 100;

class KeelAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    if (bytes < kSmallest || Runtime::get().is_forked() ||
        keel_alloc(Runtime::get().device(), KEEL_MEMORY_DEVICE, bytes, &pointer) != KEEL_OK) {
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    return {pointer, pointer, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // blocks have two deleters
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

 private:
  static void release(void* pointer) {
    // In a forked process the memory stays the parent's.
    if (!Runtime::get().is_forked()) (void)keel_free(Runtime::get().device(), pointer);
  }
};

void check_reach(keel_device device) {
  void* pointer = nullptr;
  check(keel_alloc(device, KEEL_MEMORY_DEVICE, kSmallest, &pointer), "allocating memory");
  keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  const keel_status status = keel_memory_find(device, pointer, &info);
  const bool is_reached = status == KEEL_OK && info.host_alias == info.base;
  (void)keel_free(device, pointer);
  check(is_reached ? KEEL_OK : KEEL_UNSUPPORTED, "using Keel's memory for tensors of the CPU");
}

}  // namespace

void use_allocator() {
  check_reach(Runtime::get().device());
  static KeelAllocator* const allocator = new KeelAllocator;  // tensors may outlive static objects
  c10::SetCPUAllocator(allocator, kPriority);
}

}  // namespace keel_torch
