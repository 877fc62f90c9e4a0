// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/range_allocator.h"

#include <algorithm>
#include <iterator>

namespace keel::cpu {

RangeAllocator::RangeAllocator(uint64_t size) : size_(size) {
  holes_.emplace(0, size);
}

std::optional<uint64_t> RangeAllocator::allocate(uint64_t size, uint64_t alignment) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const auto [begin, length] = *hole;
    const uint64_t offset = (begin + alignment - 1) & ~(alignment - 1);
    const uint64_t skipped = offset - begin;
    if (length < skipped || length - skipped < size) continue;
    const uint64_t rest = length - skipped - size;
    if (skipped == 0) {
      holes_.erase(hole);
    } else {
      hole->second = skipped;
    }
    if (rest > 0) holes_.emplace(offset + size, rest);
    used_.emplace(offset, size);
    return offset;
  }
  return std::nullopt;
}

uint64_t RangeAllocator::release(uint64_t offset) {
  const auto range = used_.find(offset);
  if (range == used_.end()) return 0;
  const uint64_t released = range->second;
  used_.erase(range);

  uint64_t begin = offset;
  uint64_t length = released;
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + released) {
    length += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      begin = previous->first;
      length += previous->second;
    }
  }
  holes_[begin] = length;
  return released;
}

uint64_t RangeAllocator::largest_hole() const {
  uint64_t largest = 0;
  for (const auto& [offset, length] : holes_) largest = std::max(largest, length);
  return largest;
}

}  // namespace keel::cpu
