// SPDX-License-Identifier: Apache-2.0
// Segments and blocks of a device's memory.
#ifndef KEEL_CORE_MEMORY_BLOCK_H_
#define KEEL_CORE_MEMORY_BLOCK_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/ref_counted.h"
#include "core/timeline.h"

namespace keel {

// Size classes do not share segments, since small blocks would fragment large segments.
enum class SizeClass : uint8_t {
  kSmall,
  kMedium,
  kHuge  // one segment per block, never cut
};
constexpr size_t kSizeClasses = 3;

// An allocation made by the plugin.
struct MemorySegment {
  char* base = nullptr;
  uint64_t size = 0;
  keel_memory_kind kind = KEEL_MEMORY_DEVICE;
  char* host_alias = nullptr;  // of |base|; NULL if the host cannot access it
  SizeClass size_class = SizeClass::kSmall;
};

// A position that a stream must pass before a block is free.
struct StreamPoint {
  Ref<Timeline> timeline;
  uint64_t position = 0;
};

// Part of a segment, in use or free. The blocks of a segment are contiguous.
struct MemoryBlock {
  const MemorySegment* segment = nullptr;
  char* base = nullptr;
  uint64_t size = 0;
  uint64_t requested = 0;  // by the caller; 0: the block is free
  uint64_t stream = 0;     // timeline id of the stream it was allocated for; 0: any
  // Work that may still use the memory. A used block has points if a stream took the block before
  // its own earlier work on the block was over.
  std::vector<StreamPoint> points;
  // Host memory ran out and |points| is incomplete: every stream must be idle before the block is
  // free.
  bool waits_for_all = false;
  // Incremented when the block is handed out and when it is freed, so that a cached copy can be
  // validated without a lock. Blocks live as long as the store.
  std::atomic<uint64_t> generation{0};

  MemoryBlock* before = nullptr;  // neighbours in the segment
  MemoryBlock* after = nullptr;
  uint32_t recent_slot = 0;              // 1 + index in the store's list of recent blocks
  MemoryBlock* previous_free = nullptr;  // in its free bin
  MemoryBlock* next_free = nullptr;

  bool is_free() const { return requested == 0; }
  bool has_points() const { return waits_for_all || !points.empty(); }
};

}  // namespace keel

#endif  // KEEL_CORE_MEMORY_BLOCK_H_
