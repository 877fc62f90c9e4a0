// SPDX-License-Identifier: Apache-2.0
// Free blocks by size.
#ifndef KEEL_CORE_FREE_BINS_H_
#define KEEL_CORE_FREE_BINS_H_

#include <array>
#include <bit>
#include <cstdint>

#include "core/memory_block.h"

namespace keel {

// Gives the smallest block that is large enough, the last one freed among equals. Blocks
// are linked into 1632 bins, one for each 512 bytes at first, then 32 for each power of
// two, in order of size; a bitmap finds the next bin that is not empty. Nothing is
// allocated. Not thread-safe.
class FreeBins {
 public:
  void insert(MemoryBlock& block);
  void remove(MemoryBlock& block);
  // NULL when there is none.
  MemoryBlock* best_fit(uint64_t size) const;
  // The one that best_fit would give if |block| and those before it were not there.
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
  // The first block of the first bin from |bin| on that has one.
  MemoryBlock* first_from(uint32_t bin) const;

  std::array<MemoryBlock*, kBins> heads_{};
  std::array<uint64_t, kWords> used_{};
};

}  // namespace keel

#endif  // KEEL_CORE_FREE_BINS_H_
