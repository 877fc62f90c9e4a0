// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_CUDA_HOST_MEMORY_H_
#define KEEL_EMULATOR_FACES_CUDA_HOST_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/device.h"
#include "emulator/memory.h"

namespace keel::emulator::cuda {

// Host memory that every chip may reach at any time: pinned, managed, or the caller's own and
// registered. The chips know it by the host's addresses. Thread-safe.
class HostMemory {
 public:
  enum class Kind : uint8_t { kPinned, kManaged, kRegistered };

  // |kind|: one of the first two.
  CUresult allocate(Kind kind, uint64_t size, void** out_pointer);
  // What allocate gave out for the |kind|; CUDA_ERROR_INVALID_VALUE for anything else.
  CUresult free(Kind kind, void* pointer);
  // Memory of the caller's, which keeps it until remove.
  CUresult add(void* pointer, uint64_t size);
  CUresult remove(void* pointer);
  // CUDA_ERROR_INVALID_VALUE where |pointer| is in none of it.
  CUresult find(const void* pointer) const;

  // A chip that has just come is told all there is, and hears of what follows.
  void introduce(const std::shared_ptr<Device>& chip);

 private:
  struct Block {
    uint64_t size;
    Kind kind;
    std::shared_ptr<Storage> storage;  // NULL: the caller's own
  };
  using Blocks = std::map<Address, Block>;

  // With |mutex_| held, as the next. False when one refuses it; then none has it.
  bool pin(void* pointer, uint64_t size);
  void unpin(void* pointer);

  mutable std::mutex mutex_;
  Blocks blocks_;
  std::vector<std::weak_ptr<Device>> chips_;
};

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_HOST_MEMORY_H_
