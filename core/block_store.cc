// SPDX-License-Identifier: Apache-2.0
#include "core/block_store.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace keel {

namespace {

// A smaller remainder stays in the block: a medium segment cannot use the remainder before its
// neighbours are free, and until then requests of nearly the same size find the block whole.
constexpr uint64_t kSmallestMediumRest = 64 << 10;

// Number of blocks whose merge is delayed. For medium blocks only the last, and only for a request
// of its size: with 8, a training step far ahead of its device held 1.12 times the allocated memory
// instead of 1.10.
constexpr size_t kRecentSmall = 64;
constexpr size_t kRecentMedium = 1;

StreamPoint* find_point(MemoryBlock& block, const Timeline& timeline) {
  for (StreamPoint& point : block.points) {
    if (point.timeline.get() == &timeline) return &point;
  }
  return nullptr;
}

bool same_streams(MemoryBlock& a, MemoryBlock& b) {
  return a.waits_for_all == b.waits_for_all && a.points.size() == b.points.size() &&
         std::all_of(b.points.begin(), b.points.end(), [&](const StreamPoint& point) {
           return find_point(a, *point.timeline) != nullptr;
         });
}

}  // namespace

BlockStore::BlockStore(uint64_t granule) : granule_(granule) {
  recent_[static_cast<size_t>(SizeClass::kSmall)].size = kRecentSmall;
  recent_[static_cast<size_t>(SizeClass::kMedium)].size = kRecentMedium;
}

void BlockStore::prepare_nodes(size_t count) {
  while (spare_.size() < count) {
    if (spare_.capacity() <= nodes_) spare_.reserve(2 * nodes_ + 8);  // all may return
    Blocks fresh;
    fresh.try_emplace(0);
    spare_.push_back(fresh.extract(fresh.begin()));
    ++nodes_;
  }
}

void BlockStore::prepare_split() {
  if (spare_.empty()) [[unlikely]] {
    prepare_nodes(1);
  }
}

MemoryBlock& BlockStore::insert(Blocks::const_iterator hint, char* base) {
  Blocks::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = key_of(base);
  MemoryBlock& block = blocks_.insert(hint, std::move(node))->second;
  block.base = base;
  block.requested = 0;
  block.stream = 0;
  block.waits_for_all = false;
  block.before = nullptr;
  block.after = nullptr;
  return block;
}

MemoryBlock* BlockStore::add_segment(const MemorySegment& segment) {
  const uintptr_t start = key_of(segment.base);
  const auto after = segments_.lower_bound(start);
  if (after != segments_.end() && after->first - start < segment.size) return nullptr;
  if (after != segments_.begin() &&
      start - std::prev(after)->first < std::prev(after)->second.size) {
    return nullptr;
  }
  prepare_nodes(2);  // one for the segment, one for take()
  const auto added = segments_.emplace_hint(after, start, segment);
  MemoryBlock& block = insert(blocks_.lower_bound(start), segment.base);
  block.segment = &added->second;
  block.size = segment.size;
  bins_of(block).insert(block);
  reserved_ += segment.size;
  return &block;
}

void BlockStore::take(MemoryBlock& block, uint64_t size) {
  bins_of(block).remove(block);
  const uint64_t kept = (size + granule_ - 1) & ~(granule_ - 1);
  if (block.segment->size_class == SizeClass::kHuge) return;
  const uint64_t least =
      block.segment->size_class == SizeClass::kSmall ? granule_ : kSmallestMediumRest;
  if (kept >= block.size || block.size - kept < least) return;
  MemoryBlock& rest = insert(std::next(blocks_.find(key_of(block.base))), block.base + kept);
  rest.segment = block.segment;
  rest.size = block.size - kept;
  rest.before = &block;
  rest.after = block.after;
  if (rest.after != nullptr) rest.after->before = &rest;
  block.after = &rest;
  block.size = kept;
  try {
    rest.points = block.points;
    rest.waits_for_all = block.waits_for_all;
  } catch (const std::bad_alloc&) {
    rest.points.clear();
    rest.waits_for_all = true;
  }
  // Merge the remainder with its successor now: |block| had not been merged with it, and no later
  // call would do so.
  if (MemoryBlock* const next = rest.after;
      next != nullptr && next->is_free() && next->recent_slot == 0 && same_streams(rest, *next)) {
    bins_of(rest).remove(*next);
    absorb(rest, *next);
  }
  bins_of(rest).insert(rest);
  ++splits_;
}

void BlockStore::absorb(MemoryBlock& block, MemoryBlock& next) {
  block.size += next.size;
  block.waits_for_all |= next.waits_for_all;
  for (StreamPoint& point : next.points) {
    StreamPoint* const known = find_point(block, *point.timeline);
    if (known == nullptr) {
      block.points.push_back(std::move(point));  // the caller has reserved room
    } else {
      known->position = std::max(known->position, point.position);
    }
  }
  next.points.clear();
  block.after = next.after;
  if (block.after != nullptr) block.after->before = &block;
  forget_recent(next);
  spare_.push_back(blocks_.extract(key_of(next.base)));
  ++merges_;
}

void BlockStore::join_neighbours(MemoryBlock& block) {
  MemoryBlock* joined = &block;
  FreeBins& bins = bins_of(block);
  bins.remove(block);
  // More than one block each way, if the merge of a neighbour was delayed too.
  for (MemoryBlock* next = block.after;
       next != nullptr && next->is_free() && same_streams(block, *next); next = block.after) {
    bins.remove(*next);
    absorb(block, *next);
  }
  for (MemoryBlock* previous = block.before;
       previous != nullptr && previous->is_free() && same_streams(*previous, *joined);
       previous = joined->before) {
    bins.remove(*previous);
    absorb(*previous, *joined);
    joined = previous;
  }
  bins.insert(*joined);
}

void BlockStore::give(MemoryBlock& block) {
  bins_of(block).insert(block);
  if (block.recent_slot != 0) return;                         // reused in the meantime
  if (block.segment->size_class == SizeClass::kHuge) return;  // alone in its segment
  Recent& recent = recent_of(block);
  MemoryBlock*& slot = recent.blocks[recent.oldest];
  MemoryBlock* const oldest = slot;
  slot = &block;
  block.recent_slot = static_cast<uint32_t>(++recent.oldest);
  if (recent.oldest == recent.size) recent.oldest = 0;
  if (oldest == nullptr) return;
  oldest->recent_slot = 0;
  if (oldest->is_free()) join_neighbours(*oldest);
}

void BlockStore::forget_recent(MemoryBlock& block) {
  if (block.recent_slot != 0) recent_of(block).blocks[block.recent_slot - 1] = nullptr;
  block.recent_slot = 0;
}

void BlockStore::join_for(SizeClass size_class, uint64_t size) {
  if (size_class != SizeClass::kMedium) return;
  MemoryBlock* const block = recent_[static_cast<size_t>(size_class)].blocks[0];
  if (block == nullptr || !block->is_free()) return;
  if (block->size >= size && block->size - size < kSmallestMediumRest) return;
  forget_recent(*block);
  join_neighbours(*block);
}

void BlockStore::join_recent() {
  for (Recent& recent : recent_) {
    for (size_t i = 0; i < recent.size; ++i) {
      MemoryBlock* const block = recent.blocks[i];
      if (block == nullptr) continue;
      forget_recent(*block);
      if (block->is_free()) join_neighbours(*block);
    }
  }
}

MemoryBlock* BlockStore::find(const void* pointer) {
  const auto next = blocks_.upper_bound(key_of(pointer));
  if (next == blocks_.begin()) return nullptr;
  MemoryBlock& block = std::prev(next)->second;
  return key_of(pointer) - key_of(block.base) < block.size ? &block : nullptr;
}

void BlockStore::remove_segment(Segments::iterator segment) {
  auto block = blocks_.find(segment->first);
  while (block != blocks_.end() && block->second.segment == &segment->second) {
    const auto gone = block++;
    if (gone->second.is_free()) bins_of(gone->second).remove(gone->second);
    forget_recent(gone->second);
    gone->second.points.clear();
    gone->second.requested = 0;
    gone->second.generation.fetch_add(1, std::memory_order_release);
    spare_.push_back(blocks_.extract(gone));
  }
  reserved_ -= segment->second.size;
  segments_.erase(segment);
}

std::vector<MemorySegment> BlockStore::remove_segments(std::vector<Segments::iterator>* idle,
                                                       uint64_t bytes) {
  std::vector<MemorySegment> removed;
  removed.reserve(idle->size());  // may throw; nothing below does
  std::sort(idle->begin(), idle->end(),
            [](auto a, auto b) { return a->second.size < b->second.size; });
  while (bytes != 0 && !idle->empty()) {
    // The smallest segment that covers |bytes|, else the largest.
    auto next = std::find_if(idle->begin(), idle->end(),
                             [&](auto segment) { return segment->second.size >= bytes; });
    if (next == idle->end()) --next;
    removed.push_back((*next)->second);
    bytes -= std::min(bytes, (*next)->second.size);
    remove_segment(*next);
    idle->erase(next);
  }
  return removed;
}

std::vector<MemorySegment> BlockStore::remove_all() {
  std::vector<MemorySegment> all;
  all.reserve(segments_.size());
  while (!segments_.empty()) {
    all.push_back(segments_.begin()->second);
    remove_segment(segments_.begin());
  }
  return all;
}

}  // namespace keel
