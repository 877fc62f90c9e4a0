// SPDX-License-Identifier: Apache-2.0
// Thread-local lookup cache of allocations, so that a repeated look-up takes no lock.
#ifndef KEEL_CORE_BLOCK_LOOKUP_CACHE_H_
#define KEEL_CORE_BLOCK_LOOKUP_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace keel {

struct MemoryBlock;

// A cached allocation, valid while the block has |generation|.
struct alignas(64) CachedBlock {
  uint64_t memory = 0;  // id of the Memory with the kind in its lowest bits; 0: empty
  uint64_t generation = 0;
  const MemoryBlock* block = nullptr;
  char* base = nullptr;
  char* end = nullptr;
  uint64_t size = 0;
  char* host_alias = nullptr;
};

// 16 KiB per thread: room for the tensors that a training step touches repeatedly in short order.
class BlockLookupCache {
 public:
  CachedBlock& at(const void* pointer) { return blocks_[place_of(pointer)]; }
  const CachedBlock& at(const void* pointer) const { return blocks_[place_of(pointer)]; }

  // Shared cache of threads without memory use so far: empty and never written.
  static BlockLookupCache& nothing() { return nothing_; }

 private:
  static size_t place_of(const void* pointer) {
    return ((reinterpret_cast<uintptr_t>(pointer) >> 8) * 0x9e3779b97f4a7c15u) >> 56;
  }

  std::array<CachedBlock, 256> blocks_;
  static BlockLookupCache nothing_;
};
inline constinit BlockLookupCache BlockLookupCache::nothing_;

}  // namespace keel

#endif  // KEEL_CORE_BLOCK_LOOKUP_CACHE_H_
