// SPDX-License-Identifier: Apache-2.0
// Ranges of memory of which something was found out that holds until something else changes.
#ifndef KEEL_CORE_REMEMBERED_RANGES_H_
#define KEEL_CORE_REMEMBERED_RANGES_H_

#include <array>
#include <cstdint>

namespace keel {

// The last two: what an operation sends and what it receives. For one thread.
class RememberedRanges {
 public:
  // Whether |size| bytes at |address| lie in a range that was remembered in |state|.
  bool hold(uint64_t state, uintptr_t address, uint64_t size) const {
    for (const Range& range : ranges_) {
      const uint64_t offset = address - range.begin;
      if (range.state == state && offset < range.size && size <= range.size - offset) return true;
    }
    return false;
  }
  // In place of the older one. |state| is never 0.
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

#endif  // KEEL_CORE_REMEMBERED_RANGES_H_
