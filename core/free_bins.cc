// SPDX-License-Identifier: Apache-2.0
#include "core/free_bins.h"

namespace keel {

void FreeBins::insert(MemoryBlock& block) {
  const uint32_t bin = bin_of(block.size);
  MemoryBlock* before = nullptr;
  MemoryBlock* after = heads_[bin];
  while (after != nullptr && after->size < block.size) {
    before = after;
    after = after->next_free;
  }
  block.previous_free = before;
  block.next_free = after;
  if (after != nullptr) after->previous_free = &block;
  (before == nullptr ? heads_[bin] : before->next_free) = &block;
  used_[bin / 64] |= uint64_t{1} << bin % 64;
}

void FreeBins::remove(MemoryBlock& block) {
  if (block.next_free != nullptr) block.next_free->previous_free = block.previous_free;
  if (block.previous_free != nullptr) {
    block.previous_free->next_free = block.next_free;
    return;
  }
  const uint32_t bin = bin_of(block.size);
  heads_[bin] = block.next_free;
  if (heads_[bin] == nullptr) used_[bin / 64] &= ~(uint64_t{1} << bin % 64);
}

MemoryBlock* FreeBins::first_from(uint32_t bin) const {
  if (bin >= kBins) return nullptr;
  uint32_t word = bin / 64;
  uint64_t bits = used_[word] & (~uint64_t{0} << bin % 64);
  while (bits == 0) {
    if (++word == kWords) return nullptr;
    bits = used_[word];
  }
  return heads_[word * 64 + static_cast<uint32_t>(std::countr_zero(bits))];
}

MemoryBlock* FreeBins::best_fit(uint64_t size) const {
  const uint32_t bin = bin_of(size);
  for (MemoryBlock* block = heads_[bin]; block != nullptr; block = block->next_free) {
    if (block->size >= size) return block;
  }
  return first_from(bin + 1);
}

MemoryBlock* FreeBins::next(const MemoryBlock& block) const {
  return block.next_free != nullptr ? block.next_free : first_from(bin_of(block.size) + 1);
}

}  // namespace keel
