// SPDX-License-Identifier: Apache-2.0
// The segments of one device and their blocks: splits and merges blocks, without any policy.
#ifndef KEEL_CORE_BLOCK_STORE_H_
#define KEEL_CORE_BLOCK_STORE_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/free_bins.h"
#include "core/memory_block.h"

namespace keel {

// A function marked "may throw" throws std::bad_alloc and then has changed nothing; the others do
// not throw. Not thread-safe.
class BlockStore {
 public:
  // |granule| is a power of two. Blocks start at multiples of |granule| bytes within a segment;
  // only the last block of a segment may have a size that is no multiple.
  explicit BlockStore(uint64_t granule);
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  uint64_t granule() const { return granule_; }

  // Returns the segment's only block, free and in its bin. NULL if the addresses overlap another
  // segment. May throw.
  MemoryBlock* add_segment(const MemorySegment& segment);
  // Call before take(): prepares the node for the remainder of a block that take() splits. May
  // throw.
  void prepare_split();

  const FreeBins& bins(keel_memory_kind kind, SizeClass size_class) const {
    return bins_[index_of(kind, size_class)];
  }
  // Removes |block| from its bin. Splits the block down to |size| if the remainder is worth
  // keeping.
  void take(MemoryBlock& block, uint64_t size);
  // Frees |block|. The merge with free neighbours that wait for the same streams is delayed, so
  // that the next request of this size finds the block whole.
  void give(MemoryBlock& block);
  // Call before best_fit() for |size|: merges the medium block that was freed last, unless that
  // block fits the request.
  void join_for(SizeClass size_class, uint64_t size);
  // Performs the merges that give() delayed.
  void join_recent();
  // Merges adjacent free blocks that satisfy |usable| and together have at least |size| bytes into
  // one block in its bin; NULL if no such run exists. Takes the shortest of the runs found in one
  // pass in address order. May throw.
  template <typename Usable>
  MemoryBlock* join_run(keel_memory_kind kind, SizeClass size_class, uint64_t size,
                        const Usable& usable);

  // Returns the block that contains |pointer|; NULL if no segment does.
  MemoryBlock* find(const void* pointer);
  // Removes segments whose blocks are all free and satisfy |is_done|, until their sizes add up to
  // |bytes| or none is left. Prefers the smallest segment that covers the rest of |bytes|, else the
  // largest. May throw, and so may remove_all().
  template <typename IsDone>
  std::vector<MemorySegment> remove_idle(uint64_t bytes, const IsDone& is_done);
  std::vector<MemorySegment> remove_all();

  // Visits blocks in address order.
  template <typename Visit>
  void for_each_block(const Visit& visit) {
    for (auto& [address, block] : blocks_) visit(block);
  }

  uint64_t reserved() const { return reserved_; }
  uint64_t splits() const { return splits_; }
  uint64_t merges() const { return merges_; }

 private:
  using Blocks = std::map<uintptr_t, MemoryBlock>;
  using Segments = std::map<uintptr_t, MemorySegment>;
  // Blocks of one size class that were freed last and are not merged yet; NULL where a block is
  // gone. A loop that allocates and frees the same few sizes neither splits nor merges.
  struct Recent {
    std::array<MemoryBlock*, 64> blocks{};
    size_t size = 0;  // slots in use
    size_t oldest = 0;
  };

  static size_t index_of(keel_memory_kind kind, SizeClass size_class) {
    return kind * kSizeClasses + static_cast<size_t>(size_class);
  }
  static uintptr_t key_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
  FreeBins& bins_of(const MemoryBlock& block) {
    return bins_[index_of(block.segment->kind, block.segment->size_class)];
  }
  void prepare_nodes(size_t count);
  // Inserts a new block at |base|; uses a prepared node.
  MemoryBlock& insert(Blocks::const_iterator hint, char* base);
  // Merges |next| into |block|, its predecessor; both are out of their bins.
  void absorb(MemoryBlock& block, MemoryBlock& next);
  void join_neighbours(MemoryBlock& block);
  Recent& recent_of(const MemoryBlock& block) {
    return recent_[static_cast<size_t>(block.segment->size_class)];
  }
  void forget_recent(MemoryBlock& block);
  std::vector<MemorySegment> remove_segments(std::vector<Segments::iterator>* idle, uint64_t bytes);
  void remove_segment(Segments::iterator segment);

  const uint64_t granule_;
  Segments segments_;
  Blocks blocks_;
  // Unused nodes, never freed: a thread's lookup cache may read the generation of a removed block.
  std::vector<Blocks::node_type> spare_;
  size_t nodes_ = 0;
  std::array<FreeBins, 3 * kSizeClasses> bins_;  // three memory kinds
  std::array<Recent, kSizeClasses> recent_;
  uint64_t reserved_ = 0;
  uint64_t splits_ = 0;
  uint64_t merges_ = 0;
};

template <typename Usable>
MemoryBlock* BlockStore::join_run(keel_memory_kind kind, SizeClass size_class, uint64_t size,
                                  const Usable& usable) {
  struct Run {
    MemoryBlock* first = nullptr;
    uint64_t size = 0;
    size_t points = 0;
  };
  Run best;
  Run run;
  for (auto& [address, block] : blocks_) {
    const MemorySegment& segment = *block.segment;
    if (segment.kind != kind || segment.size_class != size_class || !block.is_free() ||
        !usable(block)) {
      run = {};
      continue;
    }
    if (run.first == nullptr || run.first->segment != block.segment) run = {&block};
    run.size += block.size;
    run.points += block.points.size();
    if (run.size < size) continue;
    if (best.first == nullptr || run.size < best.size) best = run;
    run = {};
  }
  if (best.first == nullptr) return nullptr;
  MemoryBlock& block = *best.first;
  block.points.reserve(best.points);  // may throw
  FreeBins& bins = bins_of(block);
  bins.remove(block);
  while (block.size < best.size) {
    bins.remove(*block.after);
    absorb(block, *block.after);
  }
  bins.insert(block);
  return &block;
}

template <typename IsDone>
std::vector<MemorySegment> BlockStore::remove_idle(uint64_t bytes, const IsDone& is_done) {
  std::vector<Segments::iterator> idle;
  for (auto segment = segments_.begin(); segment != segments_.end(); ++segment) {
    bool used = false;
    for (MemoryBlock* block = &blocks_.find(segment->first)->second; !used && block != nullptr;
         block = block->after) {
      used = !block->is_free() || !is_done(*block);
    }
    if (!used) idle.push_back(segment);  // may throw
  }
  return remove_segments(&idle, bytes);
}

}  // namespace keel

#endif  // KEEL_CORE_BLOCK_STORE_H_
