// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUDA_HOST_MEMORY_H_
#define KEEL_EMULATOR_SHIMS_CUDA_HOST_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/device.h"
#include "emulator/memory.h"

namespace keel::emulator::cuda {

// Host memory that every chip may access at any time: pinned, managed, or owned and registered by
// the caller. The chips use host addresses for it. Thread-safe.
class HostMemory {
 public:
  enum class Kind : uint8_t { kPinned, kManaged, kRegistered };

  // |kind|: kPinned or kManaged.
  CUresult allocate(Kind kind, uint64_t size, void** out_pointer);
  // Frees a block that allocate returned for |kind|; CUDA_ERROR_INVALID_VALUE for any other
  // pointer.
  CUresult free(Kind kind, void* pointer);
  // Registers the caller's memory, which the caller keeps until remove.
  CUresult add(void* pointer, uint64_t size);
  CUresult remove(void* pointer);
  // Returns CUDA_ERROR_INVALID_VALUE if no block contains |pointer|.
  CUresult find(const void* pointer) const;

  // Pins all present and later blocks on a new chip.
  void introduce(const std::shared_ptr<Device>& chip);

 private:
  struct Block {
    uint64_t size;
    Kind kind;
    std::shared_ptr<Storage> storage;  // NULL: owned by the caller
  };
  using Blocks = std::map<Address, Block>;

  // pin() and unpin() require |mutex_|. pin() returns false if a chip refuses; then no chip has the
  // block pinned.
  bool pin(void* pointer, uint64_t size);
  void unpin(void* pointer);

  mutable std::mutex mutex_;
  Blocks blocks_;
  std::vector<std::weak_ptr<Device>> chips_;
};

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_HOST_MEMORY_H_
