// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_ADDRESS_SPACE_H_
#define KEEL_BACKENDS_CPU_ADDRESS_SPACE_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "backends/cpu/range_allocator.h"

namespace keel::cpu {

// One object mapped into a device's address space.
struct Mapping {
  char* device = nullptr;  // the address that crosses the ABI
  char* host = nullptr;    // the address workers use
  uint64_t size = 0;
};

// The addresses of one device. Plain: a device address is a host address.
// Guarded (KEEL_CPU_GUARD=1): device addresses lie in a window that nobody may
// touch, the same one for every device of the process, so that code which takes
// a device address for a host address, or for one of another device, faults or
// reads wrong bytes instead of working by luck. Workers go through an alias.
//
// Thread-safe. Analogue: a GPU's virtual address space.
class AddressSpace {
 public:
  // Room of a guarded device. Far below the 1.5 TiB of high addresses that the
  // thread sanitizer leaves to a process, for a window and several aliases.
  static constexpr uint64_t kWindowBytes = uint64_t{128} << 30;

  explicit AddressSpace(bool guarded);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Maps |size| bytes (a multiple of the page size) of |fd| shared and writable; unless guarded,
  // from a multiple of kHugePage on.
  // Nothing when there is no room or the kernel refuses.
  std::optional<Mapping> map(int fd, uint64_t size);
  void unmap(const Mapping& mapping);

  // Where the host finds device address |pointer|. Addresses outside the window
  // (pinned, registered, pageable memory) are host addresses already.
  template <typename Element>
  Element* to_host(Element* pointer) const {
    const uintptr_t offset =
        reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(window_);
    if (offset >= window_bytes_) return pointer;
    return reinterpret_cast<Element*>(alias_ + offset);
  }

  bool guarded() const { return window_bytes_ != 0; }
  // What to_host does, for code that this backend is not compiled with.
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
  uint64_t window_bytes_ = 0;  // 0: plain, and then to_host is the identity
  char* alias_ = nullptr;
  std::mutex mutex_;
  RangeAllocator ranges_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_ADDRESS_SPACE_H_
