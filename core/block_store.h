// SPDX-License-Identifier: Apache-2.0
// The segments of one device and the blocks in them: cutting and joining, no policy.
#ifndef KEEL_CORE_BLOCK_STORE_H_
#define KEEL_CORE_BLOCK_STORE_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/free_bins.h"
#include "core/memory_block.h"

namespace keel {

// A function that may throw std::bad_alloc changes nothing when it does; the others
// allocate nothing. Not thread-safe.
class BlockStore {
 public:
  // Blocks start at multiples of |granule| bytes in their segment, a power of two, and only
  // the last one of a segment may have another size than a multiple.
  explicit BlockStore(uint64_t granule);
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  uint64_t granule() const { return granule_; }

  // Its one block, free and in no bin until take() or give(). NULL when the addresses are
  // those of another segment. May throw.
  MemoryBlock* add_segment(const MemorySegment& segment);
  // Before take(): for the rest of a block that is cut. May throw.
  void prepare_split();

  const FreeBins& bins(keel_memory_kind kind, SizeClass size_class) const {
    return bins_[index_of(kind, size_class)];
  }
  // |block| comes out of its bin, cut down to |size| where the rest is worth keeping.
  void take(MemoryBlock& block, uint64_t size);
  // |block| is free. It is joined with neighbours that wait for the same streams, but not
  // at once: it stays as it is for a while, for the next one who wants its size.
  void give(MemoryBlock& block);
  // Before best_fit() for |size|: joins the medium block that came back last, unless it is
  // what the request wants.
  void join_for(SizeClass size_class, uint64_t size);
  // Joins now what give() put off.
  void join_recent();
  // Free neighbours of at least |size| bytes together that satisfy |usable|, as few bytes
  // as may be, joined to one block in its bin; NULL if there are none. May throw.
  template <typename Usable>
  MemoryBlock* join_run(keel_memory_kind kind, SizeClass size_class, uint64_t size,
                        const Usable& usable);

  // The block that |pointer| lies in; NULL when it is of no segment.
  MemoryBlock* find(const void* pointer);
  // Takes out segments whose blocks are all free and satisfy |is_done|: as few as make up
  // |bytes|, or all of them. May throw.
  template <typename IsDone>
  std::vector<MemorySegment> remove_idle(uint64_t bytes, const IsDone& is_done);
  std::vector<MemorySegment> remove_all();

  // In the order of their addresses.
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
  // Blocks of one size class that came back last, NULL where one is gone. A loop that
  // allocates and frees the same few sizes neither cuts nor joins.
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
  // A new block at |base|; takes a prepared node.
  MemoryBlock& insert(Blocks::const_iterator hint, char* base);
  // |next| becomes part of |block|, which precedes it; both out of their bins.
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
  // Unused nodes, never given back: whoever remembers a block may look at its generation.
  std::vector<Blocks::node_type> spare_;
  size_t nodes_ = 0;
  std::array<FreeBins, 3 * kSizeClasses> bins_;  // of three kinds of memory
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
