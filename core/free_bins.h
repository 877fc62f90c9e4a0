// SPDX-License-Identifier: Apache-2.0
// Index of free blocks by size.
#ifndef KEEL_CORE_FREE_BINS_H_
#define KEEL_CORE_FREE_BINS_H_

#include <array>
#include <bit>
#include <cstdint>

#include "core/memory_block.h"

namespace keel {

// Returns the smallest block that is large enough; among equals, the block freed last. Blocks are
// linked into 1632 bins in order of size: first one bin for each 512 bytes, then 32 for each power
// of two. A bitmap finds the next bin with a block. Allocates no memory. Not thread-safe.
class FreeBins {
 public:
  void insert(MemoryBlock& block);
  void remove(MemoryBlock& block);
  // NULL if no block is large enough.
  MemoryBlock* best_fit(uint64_t size) const;
  // Returns the block that best_fit() would return without |block| and those before it; NULL at the
  // end.
  MemoryBlock* next(const MemoryBlock& block) const;

 private:
  static constexpr uint64_t kUnitShift = 9;
  static constexpr uint32_t kSubBits = 5;
  static constexpr uint32_t kSubBins = 1 << kSubBits;
  static constexpr uint32_t kBins = kSubBins + (64 - kUnitShift - kSubBits) * kSubBins;
  static constexpr uint32_t kWords = (kBins + 63) / 64;

  static uint32_t bin_of(uint64_t size) {
    const uint64_t units = size >> kUnitShift;
    if (units < kSubBins) return static_cast<uint32_t>(units);
    const auto power = static_cast<uint32_t>(std::bit_width(units)) - 1;
    const uint64_t sub = (units >> (power - kSubBits)) & (kSubBins - 1);
    return kSubBins + (power - kSubBits) * kSubBins + static_cast<uint32_t>(sub);
  }
  // First block in the bins from |bin| on; NULL if all are empty.
  MemoryBlock* first_from(uint32_t bin) const;

  std::array<MemoryBlock*, kBins> heads_{};
  std::array<uint64_t, kWords> used_{};
};

}  // namespace keel

#endif  // KEEL_CORE_FREE_BINS_H_
