// SPDX-License-Identifier: Apache-2.0
// A cache of memory ranges with a property that holds until a state number changes.
#ifndef KEEL_CORE_RANGE_LOOKUP_CACHE_H_
#define KEEL_CORE_RANGE_LOOKUP_CACHE_H_

#include <array>
#include <cstdint>

namespace keel {

// Caches the last two ranges: an operation's input and output. For one thread.
class RangeLookupCache {
 public:
  // Returns whether [address, address + size) lies in a range remembered in |state|.
  bool hold(uint64_t state, uintptr_t address, uint64_t size) const {
    for (const Range& range : ranges_) {
      const uint64_t offset = address - range.begin;
      if (range.state == state && offset < range.size && size <= range.size - offset) return true;
    }
    return false;
  }
  // Replaces the older range. |state| is never 0.
  void remember(uint64_t state, uintptr_t begin, uint64_t size) {
    ranges_[oldest_] = {state, begin, size};
    oldest_ = (oldest_ + 1) % ranges_.size();
  }

 private:
  struct Range {
    uint64_t state = 0;
    uintptr_t begin = 0;
    uint64_t size = 0;
  };

  std::array<Range, 2> ranges_;
  uint32_t oldest_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_RANGE_LOOKUP_CACHE_H_
