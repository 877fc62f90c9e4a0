// SPDX-License-Identifier: Apache-2.0
// The memory of one device: its allocations and a cache of freed blocks.
#ifndef KEEL_CORE_MEMORY_H_
#define KEEL_CORE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/block_lookup_cache.h"
#include "core/block_store.h"
#include "core/event.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

struct Allocation {
  void* base = nullptr;
  uint64_t size = 0;  // as requested
  keel_memory_kind kind = KEEL_MEMORY_DEVICE;
  void* host_alias = nullptr;  // of |base|; NULL if the host cannot access it
};

// A caching allocator. Memory is allocated from the plugin in segments and cut, best fit first,
// into blocks of multiples of 512 bytes; free neighbours are joined again. Segments return to the
// plugin by trim(), when memory runs out, and before the reserved total would exceed its previous
// peak. A freed block records which streams may still use it, and up to which position. The block
// is reused
//   - for any use, once all these streams have passed; they are polled only when it is wanted;
//   - for a stream at once, if these streams are that stream or streams it has waited for.
// Freeing never waits and makes no call to the plugin. An allocation from the cache calls the
// plugin only to query a stream's progress or to record an event for later queries. Thread-safe.
// One mutex per device, never held while the plugin allocates or frees.
class Memory {
 public:
  explicit Memory(Device& device);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For immediate use by any stream or the host.
  Status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  // Device memory for work enqueued on |stream| from now on, and for work ordered after that work.
  Status alloc(Stream& stream, uint64_t size, void** out_pointer);
  // The block becomes free once all work enqueued now, on any stream of any device, is over: copies
  // between devices read the memory from streams of either device.
  Status free(void* pointer);
  // The block becomes free once the work enqueued on |stream| is over; the caller is responsible
  // for other streams. If |stream| holds work or has failed, the block is freed as by
  // free(pointer).
  Status free(Stream& stream, void* pointer);
  // Returns entirely free and idle segments to the plugin.
  void trim();
  // Returns all segments to the plugin when the device closes; logs how much was still allocated.
  void release_all();

  // Finds the allocation at or around |pointer|; false if none exists. Takes no lock and about 5 ns
  // while this thread's lookup cache holds |pointer| from an earlier lookup or alloc().
  bool find(const void* pointer, Allocation* out_allocation) const;
  // Returns KEEL_OK if [pointer, pointer + size) lies inside a single allocation; |what| names the
  // argument in the failure.
  Status check_range(const void* pointer, uint64_t size, const char* what,
                     Allocation* out_allocation) const {
    if (!find(pointer, out_allocation)) [[unlikely]] {
      return refuse_range(pointer, size, what, nullptr);
    }
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(out_allocation->base);
    if (size > out_allocation->size - offset) [[unlikely]] {
      return refuse_range(pointer, size, what, out_allocation);
    }
    return {};
  }

  // Returns whether |cache|, a thread's lookup cache, shows that [pointer, pointer + size) lies in
  // one allocation of device memory: no lock, no call and no failure text. On false, check_range()
  // decides and fills the cache.
  bool is_known_range(const BlockLookupCache& cache, const void* pointer, uint64_t size) const {
    static_assert(KEEL_MEMORY_DEVICE == 0);
    const CachedBlock& known = cache.at(pointer);
    const uint64_t to_end =
        reinterpret_cast<uintptr_t>(known.end) - reinterpret_cast<uintptr_t>(pointer);
    return known.memory == id_ && to_end <= known.size && size <= to_end &&
           known.block->generation.load(std::memory_order_acquire) == known.generation;
  }

  // Like is_known_range(), for memory accessible to the host: returns the host address of
  // |pointer|; NULL if not in the cache.
  char* known_alias(const BlockLookupCache& cache, const void* pointer, uint64_t size) const {
    if (!is_known_range(cache, pointer, size)) return nullptr;
    const CachedBlock& known = cache.at(pointer);
    if (known.host_alias == nullptr) return nullptr;
    return known.host_alias + (static_cast<const char*>(pointer) - known.base);
  }

  // Returns whether |pointer| lies in a segment, allocated or free.
  bool owns(const void* pointer) const;
  // Finds the segment of the allocation at or around |pointer|; false if none exists.
  bool find_segment(const void* pointer, MemorySegment* out_segment) const;

  // Fills in all fields but the header.
  void get_stats(keel_memory_stats* out_stats) const;
  void reset_peaks();
  // Number of segments returned to the plugin. Incremented before each return, since the plugin may
  // reuse the addresses: caches of addresses compare this number. Takes no lock.
  uint64_t releases() const { return native_frees_.load(std::memory_order_acquire); }
  // Text as described at keel_memory_snapshot.
  std::string snapshot() const;

 private:
  // A request, with the rounded size and the size class.
  struct Request {
    keel_memory_kind kind;
    uint64_t size;   // as requested
    uint64_t block;  // rounded
    SizeClass size_class;
    Stream* stream;  // NULL: any stream
  };

  // Looks |pointer| up with the lock and fills the thread's lookup cache.
  [[gnu::noinline]] bool find_anew(const void* pointer, Allocation* out_allocation) const;
  // |found|: the allocation that is too short, or NULL.
  [[gnu::cold]] Status refuse_range(const void* pointer, uint64_t size, const char* what,
                                    const Allocation* found) const;
  Status allocate(keel_memory_kind kind, uint64_t size, Stream* stream, void** out_pointer);
  Status release(void* pointer, Stream* stream);
  void tell_handed_out(keel_memory_kind kind, const void* pointer, uint64_t size,
                       Stream* stream) const;
  void tell_observers() const;
  Status make_request(keel_memory_kind kind, uint64_t size, Stream* stream,
                      Request* out_request) const;

  // With |mutex_| held:
  bool take_cached(const Request& request, WakeList& wake, void** out_pointer);
  MemoryBlock* find_cached(const Request& request, WakeList& wake);
  MemoryBlock* join_cached(const Request& request, WakeList& wake);
  void* hand_out(MemoryBlock& block, const Request& request);
  static bool is_usable(const MemoryBlock& block, Stream* stream);
  // Adds the points of |block| that are not known to be passed, the latest of each stream.
  static void gather_points(const MemoryBlock& block, std::vector<StreamPoint>* points);
  static void poll_all(const std::vector<StreamPoint>& points, WakeList& wake);
  static void add_point(MemoryBlock& block, Timeline& timeline, uint64_t position);
  uint64_t segment_size(const Request& request) const;
  std::vector<MemorySegment> remove_idle(uint64_t bytes, WakeList& wake);

  // Without |mutex_|:
  Status allocate_native(const Request& request, uint64_t segment_size, void** out_pointer);
  Status allocate_segment(const Request& request, uint64_t segment_size, void** out_pointer);
  Status make_room(const Request& request, void** out_pointer);
  void wait_for_cached();
  void give_back(const std::vector<MemorySegment>& segments);
  void give_back(const MemorySegment& segment);
  Status out_of_memory(const Request& request, const Status& cause) const;

  Device& device_;
  // Unique in the process, also across shutdowns. A multiple of 4, so that the memory kind fits in
  // the lowest bits.
  const uint64_t id_;
  mutable std::mutex mutex_;
  mutable BlockStore store_;  // read by look-ups that miss the cache
  uint64_t allocated_ = 0;
  uint64_t requested_ = 0;
  uint64_t live_blocks_ = 0;
  uint64_t allocated_peak_ = 0;
  uint64_t reserved_peak_ = 0;
  uint64_t allocations_ = 0;
  uint64_t cache_hits_ = 0;
  uint64_t native_allocs_ = 0;
  std::atomic<uint64_t> native_frees_{0};
  uint64_t out_of_memory_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_MEMORY_H_
