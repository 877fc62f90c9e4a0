// SPDX-License-Identifier: Apache-2.0
// The live memory of one device, with the work that uses it.
#ifndef KEEL_CORE_VALIDATION_ALLOCATIONS_H_
#define KEEL_CORE_VALIDATION_ALLOCATIONS_H_

#include <keel/keel.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/validation/origin.h"
#include "core/validation/timeline.h"

namespace keel::validation {

// The address space of a pointer. Device and host addresses may be equal numbers.
enum class Space { kDevice, kHost };

// How memory was created, which decides the allowed calls.
enum class Source { kAlloc, kImport, kRegistered };

struct Block {
  uintptr_t base = 0;
  uint64_t size = 0;
  keel_memory_kind kind = KEEL_MEMORY_DEVICE;
  Source source = Source::kAlloc;
  Origin origin;
  std::vector<Use> uses;  // the latest of each timeline

  bool is_in(Space space) const {
    if (kind == KEEL_MEMORY_MANAGED) return true;
    return (kind == KEEL_MEMORY_DEVICE) == (space == Space::kDevice);
  }
  void* pointer() const { return reinterpret_cast<void*>(base); }
  void add_use(const Use& use);
  // Returns a use not known to be done; NULL if nothing is in flight.
  const Use* unfinished() const;
};

// Not thread-safe: the device's lock guards the object.
class Allocations {
 public:
  // find() returns the block around |pointer|, find_base() the block that begins there; NULL if
  // there is none.
  std::shared_ptr<Block> find(Space space, const void* pointer) const;
  std::shared_ptr<Block> find_base(const void* pointer, keel_memory_kind kind) const;
  // Returns a live block that overlaps |block|; NULL if there is none.
  std::shared_ptr<Block> overlapping(const Block& block) const;
  void insert(std::shared_ptr<Block> block);
  void erase(const Block& block);
  // Returns each block once.
  std::vector<std::shared_ptr<Block>> all() const;
  void clear();

 private:
  using Map = std::map<uintptr_t, std::shared_ptr<Block>>;
  Map& map(Space space) { return maps_[space == Space::kDevice ? 0 : 1]; }
  const Map& map(Space space) const { return maps_[space == Space::kDevice ? 0 : 1]; }

  Map maps_[2];
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_ALLOCATIONS_H_
