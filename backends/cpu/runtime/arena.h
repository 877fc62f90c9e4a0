// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_ARENA_H_
#define KEEL_BACKENDS_CPU_RUNTIME_ARENA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "backends/cpu/runtime/address_space.h"
#include "backends/cpu/runtime/range_allocator.h"

namespace keel::cpu {

// A shared-memory object from which ArenaPool cuts allocations: a memfd sealed against growing and
// shrinking, so that a truncation cannot kill a process that maps the memfd (SIGBUS). The kernel
// commits pages on first touch, except for the huge pages of ArenaPool.
class Arena {
 public:
  // |size| is a multiple of the page size. Returns NULL and sets errno when the kernel refuses.
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

// Remaining memory of one device, device and pinned memory together. Thread-safe.
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

// The allocations of one device and one memory kind, in arenas of 64 MiB or of the allocation's
// size if larger. Empty arenas return to the system, except for the last arena of 64 MiB.
// Thread-safe.
class ArenaPool {
 public:
  static constexpr uint64_t kArenaBytes = uint64_t{64} << 20;
  static constexpr uint64_t kAlignment = 64;

  // The position of an address in an arena's file.
  struct Location {
    int fd = -1;  // borrowed from the arena
    uint64_t offset = 0;
    uint64_t arena_size = 0;
  };

  ArenaPool(AddressSpace& space, MemoryBudget& budget) : space_(space), budget_(budget) {}

  // Returns the device address of |size| bytes: aligned to 64 bytes below 4 KiB, to 4 KiB from
  // 4 KiB on, and in plain mode to 2 MiB from 2 MiB on. Returns NULL with errno 0 when the budget
  // is used up, and NULL with the system's errno when the system refuses. In plain mode,
  // allocations from 2 MiB to kMostHuge are committed immediately, as huge pages where the kernel
  // grants them, for every process that maps the file.
  void* allocate(uint64_t size);
  // Returns false when allocate did not return |pointer|.
  bool release(void* pointer);
  // Returns false when [pointer, pointer + size) does not lie in an arena of this pool.
  bool locate(const void* pointer, uint64_t size, Location* out_location);

 private:
  // Returns a range of an existing arena, or of a new arena if none has room; nullopt, with the
  // system's errno, when the system refuses a new arena.
  std::optional<Mapping> place(uint64_t bytes, uint64_t alignment);
  Arena* find(uintptr_t address);

  AddressSpace& space_;
  MemoryBudget& budget_;
  std::mutex mutex_;
  std::map<uintptr_t, std::unique_ptr<Arena>> arenas_;  // by device address
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_ARENA_H_
