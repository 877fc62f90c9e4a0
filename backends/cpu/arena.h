// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_ARENA_H_
#define KEEL_BACKENDS_CPU_ARENA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "backends/cpu/address_space.h"
#include "backends/cpu/range_allocator.h"

namespace keel::cpu {

// A piece of shared memory that allocations are cut from: a memfd sealed against
// growing and shrinking, so that a process that maps it cannot be killed by a
// truncation (SIGBUS). Pages are committed when they are first touched, but for the huge pages of
// ArenaPool.
class Arena {
 public:
  // |size| is a multiple of the page size. NULL when the kernel refuses; errno says why.
  static std::unique_ptr<Arena> create(AddressSpace& space, uint64_t size);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_; }
  const Mapping& mapping() const { return mapping_; }
  RangeAllocator& ranges() { return ranges_; }

 private:
  Arena(AddressSpace& space, int fd, const Mapping& mapping)
      : space_(space), fd_(fd), mapping_(mapping), ranges_(mapping.size) {}

  AddressSpace& space_;
  const int fd_;
  const Mapping mapping_;
  RangeAllocator ranges_;
};

// What one device may still allocate, device and pinned memory together.
// Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}
  bool take(uint64_t size);
  void give(uint64_t size);
  uint64_t limit() const { return limit_; }
  uint64_t left() const;

 private:
  const uint64_t limit_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
};

// The allocations of one device and one memory kind, in arenas of 64 MiB, or of
// the allocation's size where that is larger. Empty arenas go back to the system,
// but for one. Thread-safe.
class ArenaPool {
 public:
  static constexpr uint64_t kArenaBytes = uint64_t{64} << 20;
  static constexpr uint64_t kAlignment = 64;

  // Where an address lies.
  struct Location {
    int fd = -1;  // borrowed from the arena
    uint64_t offset = 0;
    uint64_t arena_size = 0;
  };

  ArenaPool(AddressSpace& space, MemoryBudget& budget) : space_(space), budget_(budget) {}

  // Device address of |size| bytes: aligned to 64, from a page up to 4 KiB, from 2 MiB up to as
  // much. NULL when the budget has no more, with an errno of 0, or the system, with its errno.
  // From 2 MiB up to kMostHuge the memory is committed now, as huge pages where the kernel has
  // them, for whoever maps the file.
  void* allocate(uint64_t size);
  // False when |pointer| did not come from allocate.
  bool release(void* pointer);
  // False when [pointer, pointer + size) does not lie in an arena of this pool.
  bool locate(const void* pointer, uint64_t size, Location* out_location);

 private:
  // A piece of an arena, of a new one if none has room; nothing where the system refuses that, with
  // its errno.
  std::optional<Mapping> place(uint64_t bytes, uint64_t alignment);
  Arena* find(uintptr_t address);

  AddressSpace& space_;
  MemoryBudget& budget_;
  std::mutex mutex_;
  std::map<uintptr_t, std::unique_ptr<Arena>> arenas_;  // by device address
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_ARENA_H_
