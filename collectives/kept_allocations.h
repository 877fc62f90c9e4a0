// SPDX-License-Identifier: Apache-2.0
// Allocations around the buffers of an operation that runs after its call has returned.
#ifndef KEEL_COLLECTIVES_KEPT_ALLOCATIONS_H_
#define KEEL_COLLECTIVES_KEPT_ALLOCATIONS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/operation.h"
#include "core/memory.h"

namespace keel {

// The caller may free a buffer behind the collective, as behind a copy: the block stays where it is
// until the operation is complete, but a lookup no longer finds it. The call therefore keeps what
// its check has found. Not thread-safe.
class KeptAllocations {
 public:
  // Keeps the allocations of |memory| around the buffers of |request|. A buffer outside of all
  // allocations, which is the caller's registered memory, is left out.
  void keep(const Memory& memory, const Request& request) {
    keep(memory, request.send, &buffers_[0]);
    keep(memory, request.receive, &buffers_[1]);
    transfers_.resize(request.transfers.size());
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& transfer = request.transfers[i];
      keep(memory, transfer.sends ? transfer.source : transfer.destination, &transfers_[i]);
    }
  }

  // Returns whether |pointer| lies in one of the allocations.
  bool find(const void* pointer, Allocation* out_allocation) const {
    const auto holds = [&](const Allocation& allocation) {
      if (allocation.base == nullptr) return false;
      const uint64_t offset =
          reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(allocation.base);
      if (offset >= allocation.size) return false;
      *out_allocation = allocation;
      return true;
    };
    for (const Allocation& buffer : buffers_) {
      if (holds(buffer)) return true;
    }
    for (const Allocation& transfer : transfers_) {
      if (holds(transfer)) return true;
    }
    return false;
  }

 private:
  static void keep(const Memory& memory, const void* pointer, Allocation* out_allocation) {
    if (pointer == nullptr || !memory.find(pointer, out_allocation)) *out_allocation = {};
  }

  std::array<Allocation, 2> buffers_;
  std::vector<Allocation> transfers_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_KEPT_ALLOCATIONS_H_
