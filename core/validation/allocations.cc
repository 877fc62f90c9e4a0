// SPDX-License-Identifier: Apache-2.0
#include "core/validation/allocations.h"

#include <algorithm>
#include <utility>

namespace keel::validation {

void Block::add_use(const Use& use) {
  std::erase_if(uses,
                [&](const Use& old) { return old.timeline == use.timeline || old.is_done(); });
  uses.push_back(use);
}

const Use* Block::unfinished() const {
  const auto found =
      std::find_if(uses.begin(), uses.end(), [](const Use& use) { return !use.is_done(); });
  return found == uses.end() ? nullptr : &*found;
}

std::shared_ptr<Block> Allocations::find(Space space, const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto next = map(space).upper_bound(address);
  if (next == map(space).begin()) return nullptr;
  const auto& block = (--next)->second;
  return address - block->base < block->size ? block : nullptr;
}

std::shared_ptr<Block> Allocations::find_base(const void* pointer, keel_memory_kind kind) const {
  const Space space = kind == KEEL_MEMORY_PINNED ? Space::kHost : Space::kDevice;
  const auto found = map(space).find(reinterpret_cast<uintptr_t>(pointer));
  return found == map(space).end() ? nullptr : found->second;
}

std::shared_ptr<Block> Allocations::overlapping(const Block& block) const {
  for (const Space space : {Space::kDevice, Space::kHost}) {
    if (!block.is_in(space)) continue;
    const auto next = map(space).lower_bound(block.base);
    if (next != map(space).end() && next->first - block.base < block.size) return next->second;
    if (next == map(space).begin()) continue;
    const auto& before = std::prev(next)->second;
    if (block.base - before->base < before->size) return before;
  }
  return nullptr;
}

void Allocations::insert(std::shared_ptr<Block> block) {
  for (const Space space : {Space::kDevice, Space::kHost}) {
    if (block->is_in(space)) map(space)[block->base] = block;
  }
}

void Allocations::erase(const Block& block) {
  for (const Space space : {Space::kDevice, Space::kHost}) {
    if (block.is_in(space)) map(space).erase(block.base);
  }
}

std::vector<std::shared_ptr<Block>> Allocations::all() const {
  std::vector<std::shared_ptr<Block>> blocks;
  for (const auto& [base, block] : map(Space::kDevice)) blocks.push_back(block);
  for (const auto& [base, block] : map(Space::kHost)) {
    if (!block->is_in(Space::kDevice)) blocks.push_back(block);  // managed memory is in both maps
  }
  return blocks;
}

void Allocations::clear() {
  for (Map& each : maps_) each.clear();
}

}  // namespace keel::validation
