// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_HOST_MEMORY_H_
#define KEEL_EMULATOR_HOST_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/device.h"
#include "emulator/memory.h"

namespace keel::emulator {

// Host memory that every chip may access at any time: pinned, managed, or owned and registered by
// the caller. The chips use host addresses for it. Thread-safe.
class HostMemory {
 public:
  enum class Kind : uint8_t { kPinned, kManaged, kRegistered };
  // The result of a call; each shim has its vendor's number for it.
  enum class Result : uint8_t { kOk, kInvalid, kOutOfMemory, kOverlaps, kAbsent };

  // |kind|: kPinned or kManaged.
  Result allocate(Kind kind, uint64_t size, void** out_pointer);
  // Frees a block that allocate returned for |kind|; kAbsent for any other pointer.
  Result free(Kind kind, void* pointer);
  // Registers the caller's memory, which the caller keeps until remove. Returns kOverlaps if a part
  // of the memory is a block already.
  Result add(void* pointer, uint64_t size);
  Result remove(void* pointer);
  // Returns kOk if one block contains the |size| bytes, kAbsent if they touch none, else kOverlaps.
  Result find(const void* pointer, uint64_t size = 1) const;

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

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_HOST_MEMORY_H_
