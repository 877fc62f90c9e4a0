// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_RANGE_ALLOCATOR_H_
#define KEEL_BACKENDS_CPU_RUNTIME_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>

namespace keel::cpu {

// Allocates ranges of [0, size) first-fit by address and merges adjacent free ranges. Handles
// numbers only, no memory. Not thread-safe.
class RangeAllocator {
 public:
  explicit RangeAllocator(uint64_t size);

  // Returns the offset of |size| > 0 bytes at a multiple of |alignment| (a power of two), or
  // nullopt when no hole is large enough.
  std::optional<uint64_t> allocate(uint64_t size, uint64_t alignment);

  // Frees the range that begins at |offset| and returns its size, or 0 when no range begins there.
  uint64_t release(uint64_t offset);

  uint64_t size() const { return size_; }
  bool empty() const { return used_.empty(); }
  // Size of the largest free range, ignoring alignment.
  uint64_t largest_hole() const;

 private:
  const uint64_t size_;
  std::map<uint64_t, uint64_t> holes_;  // offset -> size, never adjacent
  std::map<uint64_t, uint64_t> used_;   // offset -> size
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_RANGE_ALLOCATOR_H_
