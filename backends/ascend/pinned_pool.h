// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_PINNED_POOL_H_
#define KEEL_BACKENDS_ASCEND_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace keel::ascend {

// Pinned blocks through which copies of pageable memory go. A host function on a stream gives a
// block back, so give_back() calls nothing of the vendor's. Thread-safe.
class PinnedPool {
 public:
  static constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
  // A stream that needs more blocks waits for its own work first.
  static constexpr size_t kManyBlocks = 1024;

  struct Block {
    PinnedPool* pool;
    void* memory;
    const void* user = nullptr;   // the stream whose work uses the block; NULL: free
    void* destination = nullptr;  // copied to at the end; NULL: nothing is copied
    uint64_t size = 0;
  };

  // Returns a free block, or NULL: the caller then allocates memory for a block of add().
  Block* take(const void* user) {
    const std::lock_guard lock(mutex_);
    for (const auto& block : blocks_) {
      if (block->user != nullptr) continue;
      block->user = user;
      return block.get();
    }
    return nullptr;
  }
  // Returns a block without memory.
  Block* add(const void* user) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(std::make_unique<Block>(Block{this, nullptr, user}));
    return blocks_.back().get();
  }
  void remove(const Block* block) {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [block](const auto& each) { return each.get() == block; });
  }
  void give_back(Block* block) {
    const std::lock_guard lock(mutex_);
    block->user = nullptr;
  }
  // Gives back the blocks of a stream whose work has ended, also where a failure skipped the host
  // function.
  void reclaim(const void* user) {
    const std::lock_guard lock(mutex_);
    for (const auto& block : blocks_) {
      if (block->user == user) block->user = nullptr;
    }
  }
  bool has_many() {
    const std::lock_guard lock(mutex_);
    return blocks_.size() >= kManyBlocks;
  }
  // All blocks, for the release of their memory at the end.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_PINNED_POOL_H_
