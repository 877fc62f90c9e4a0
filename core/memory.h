// The memory of one device: what is allocated where, and a pool of freed blocks.
#ifndef KEEL_CORE_MEMORY_H_
#define KEEL_CORE_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;

struct Allocation {
  void* base = nullptr;
  uint64_t size = 0;  // as asked for
  keel_memory_kind kind = KEEL_MEMORY_DEVICE;
  void* host_alias = nullptr;  // of |base|; NULL where the host cannot reach it
};

// Freed blocks are kept by size and handed out again once all work that was enqueued
// before the free, on any stream of any device, is done: copies between devices read
// the memory from streams of either. free() never waits. Thread-safe.
//
// A block's size is rounded up to 1/8 of its power of two, so that at most 12.5% is
// wasted and sizes that differ little share blocks.
class Memory {
 public:
  explicit Memory(Device& device) : device_(device) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  Status free(void* pointer);
  // Gives blocks that are free and idle back to the device.
  void trim();
  // Gives everything back, at the device's end; logs how much was still allocated.
  void release_all();

  // The allocation that |pointer| lies in; false if there is none.
  bool find(const void* pointer, Allocation* out_allocation) const;
  // KEEL_OK if [pointer, pointer + size) lies in one allocation; |what| names the
  // argument in the failure.
  Status check_range(const void* pointer, uint64_t size, const char* what,
                     Allocation* out_allocation) const;

 private:
  struct Block {
    void* base = nullptr;
    uint64_t size = 0;  // rounded
    keel_memory_kind kind = KEEL_MEMORY_DEVICE;
    void* host_alias = nullptr;
    std::vector<Ref<EventRecord>> fences;  // to be done before the block is used again
  };
  struct Live {
    Block block;
    uint64_t requested = 0;
  };
  using LiveMap = std::map<uintptr_t, Live>;

  Status alloc_native(keel_memory_kind kind, uint64_t size, Block* out_block);
  bool take_cached(keel_memory_kind kind, uint64_t size, Block* out_block);
  void give_back(const Block& block);
  // Waits for cached blocks whose work is in flight, for want of memory.
  void wait_for_cached();

  Device& device_;
  mutable std::shared_mutex live_mutex_;
  LiveMap live_;
  std::mutex cache_mutex_;
  std::vector<Block> cache_;
};

}  // namespace keel

#endif  // KEEL_CORE_MEMORY_H_
