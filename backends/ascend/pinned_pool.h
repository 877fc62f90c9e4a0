// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_PINNED_POOL_H_
#define KEEL_BACKENDS_ASCEND_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace keel::ascend {

// Pinned blocks through which copies of pageable memory go. A host function on a stream ends the
// use of a block, and calls nothing of the vendor's. A host function that comes after its stream or
// its device has ended finds another use of the block, and does nothing. Thread-safe.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  static constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
  // A stream that needs more blocks waits for its own work first.
  static constexpr size_t kManyBlocks = 1024;

  struct Block {
    void* memory = nullptr;
    const void* user = nullptr;  // the stream whose work uses the block; NULL: free
    std::mutex mutex;            // held while |memory| is copied from, and while |use| changes
    uint64_t use = 0;            // number of the current use
  };

  // Argument of the host function that ends one use of a block.
  struct Use {
    std::shared_ptr<PinnedPool> pool;
    Block* block;
    uint64_t number;
    void* destination;  // copied to at the end; NULL: nothing is copied
    uint64_t size;
  };
  std::unique_ptr<Use> make_use(Block* block, void* destination, uint64_t size) {
    return std::unique_ptr<Use>(new Use{shared_from_this(), block, block->use, destination, size});
  }
  static void end(const Use& use) {
    {
      const std::lock_guard lock(use.block->mutex);
      if (use.block->use != use.number) return;
      if (use.destination != nullptr) {
        std::memcpy(use.destination, use.block->memory, use.size);
      }
    }
    const std::lock_guard lock(use.pool->mutex_);
    if (use.block->use == use.number) release(*use.block);
  }

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
    blocks_.push_back(std::make_unique<Block>());
    blocks_.back()->user = user;
    return blocks_.back().get();
  }
  void remove(const Block* block) {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [block](const auto& each) { return each.get() == block; });
  }
  // Ends the uses of a stream whose work has ended or was given up, also where a failure skipped
  // the host function.
  void reclaim(const void* user) {
    const std::lock_guard lock(mutex_);
    for (const auto& block : blocks_) {
      if (block->user == user) release(*block);
    }
  }
  // Ends all uses. The blocks' memory may be freed afterwards.
  void close() {
    const std::lock_guard lock(mutex_);
    for (const auto& block : blocks_) release(*block);
  }
  bool has_many() {
    const std::lock_guard lock(mutex_);
    return blocks_.size() >= kManyBlocks;
  }
  // All blocks, for the release of their memory at the end.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

 private:
  // The caller holds mutex_.
  static void release(Block& block) {
    const std::lock_guard lock(block.mutex);
    ++block.use;
    block.user = nullptr;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_PINNED_POOL_H_
