// SPDX-License-Identifier: Apache-2.0
// The pieces that a device's memory is held in.
#ifndef KEEL_CORE_MEMORY_BLOCK_H_
#define KEEL_CORE_MEMORY_BLOCK_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/ref_counted.h"
#include "core/timeline.h"

namespace keel {

// Sizes that share no segment, since small blocks would cut large segments to pieces.
enum class SizeClass : uint8_t {
  kSmall,
  kMedium,
  kHuge  // each block has a segment of its own, which is not cut
};
constexpr size_t kSizeClasses = 3;

// One allocation of the plugin's.
struct MemorySegment {
  char* base = nullptr;
  uint64_t size = 0;
  keel_memory_kind kind = KEEL_MEMORY_DEVICE;
  char* host_alias = nullptr;  // of |base|; NULL where the host cannot reach it
  SizeClass size_class = SizeClass::kSmall;
};

// What a stream has to pass before a block is free.
struct StreamPoint {
  Ref<Timeline> timeline;
  uint64_t position = 0;
};

// A part of a segment, in use or free. Blocks of a segment follow each other without gaps.
struct MemoryBlock {
  const MemorySegment* segment = nullptr;
  char* base = nullptr;
  uint64_t size = 0;
  uint64_t requested = 0;  // by the caller; 0: the block is free
  uint64_t stream = 0;     // id of the timeline that it was allocated for; 0: for any
  // Work that may still use the memory. In use, too: memory taken before the work of its
  // own stream was over.
  std::vector<StreamPoint> points;
  // For want of host memory |points| is not all: every stream has to be idle.
  bool waits_for_all = false;
  // Advances whenever the block is handed out and when it comes back, so that a copy of
  // what it was can be checked without a lock. Blocks live as long as their store.
  std::atomic<uint64_t> generation{0};

  MemoryBlock* before = nullptr;  // neighbours in the segment
  MemoryBlock* after = nullptr;
  uint32_t recent_slot = 0;              // one more than the index among the store's recent ones
  MemoryBlock* previous_free = nullptr;  // in its bin
  MemoryBlock* next_free = nullptr;

  bool is_free() const { return requested == 0; }
  bool has_points() const { return waits_for_all || !points.empty(); }
};

}  // namespace keel

#endif  // KEEL_CORE_MEMORY_BLOCK_H_
