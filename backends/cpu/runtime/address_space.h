// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_ADDRESS_SPACE_H_
#define KEEL_BACKENDS_CPU_RUNTIME_ADDRESS_SPACE_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "backends/cpu/runtime/range_allocator.h"

namespace keel::cpu {

// One file mapping in a device's address space.
struct Mapping {
  char* device = nullptr;  // the address that the ABI passes
  char* host = nullptr;    // the address that worker threads use
  uint64_t size = 0;
};

// The addresses of one device. Plain mode: a device address is a host address. Guarded mode
// (KEEL_CPU_GUARD=1): device addresses lie in an inaccessible window, and worker threads access the
// memory through an alias. All devices of the process share the window, so code that confuses a
// device address with a host address, or with an address of another device, faults or reads wrong
// bytes instead of working by luck.
//
// Thread-safe. Analogue: a GPU's virtual address space.
class AddressSpace {
 public:
  // Address range of a guarded device. The thread sanitizer leaves a process 1.5 TiB of high
  // addresses, enough for the window and several aliases of 128 GiB.
  static constexpr uint64_t kWindowBytes = uint64_t{128} << 30;

  explicit AddressSpace(bool guarded);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Maps |size| bytes (a multiple of the page size) of |fd| shared and writable; in plain mode the
  // mapping begins at a multiple of kHugePage. Returns nullopt when the address range is full or
  // the kernel refuses.
  std::optional<Mapping> map(int fd, uint64_t size);
  void unmap(const Mapping& mapping);

  // Host address of device address |pointer|. Addresses outside the window (pinned, registered,
  // pageable memory) are host addresses already.
  template <typename Element>
  Element* to_host(Element* pointer) const {
    const uintptr_t offset =
        reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(window_);
    if (offset >= window_bytes_) return pointer;
    return reinterpret_cast<Element*>(alias_ + offset);
  }

  bool guarded() const { return window_bytes_ != 0; }
  // The parameters of to_host, for code that is compiled separately from this backend.
  struct Window {
    uintptr_t device;
    uint64_t bytes;
    uintptr_t host;
  };
  Window window() const {
    return {reinterpret_cast<uintptr_t>(window_), window_bytes_,
            reinterpret_cast<uintptr_t>(alias_)};
  }

 private:
  char* window_ = nullptr;
  uint64_t window_bytes_ = 0;  // 0: plain mode; to_host is the identity
  char* alias_ = nullptr;
  std::mutex mutex_;
  RangeAllocator ranges_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_ADDRESS_SPACE_H_
