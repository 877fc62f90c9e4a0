// SPDX-License-Identifier: Apache-2.0
// The memory of one device: what is allocated where, and a cache of what was freed.
#ifndef KEEL_CORE_MEMORY_H_
#define KEEL_CORE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/block_store.h"
#include "core/event.h"
#include "core/remembered_blocks.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

struct Allocation {
  void* base = nullptr;
  uint64_t size = 0;  // as asked for
  keel_memory_kind kind = KEEL_MEMORY_DEVICE;
  void* host_alias = nullptr;  // of |base|; NULL where the host cannot reach it
};

// A caching allocator. Memory comes from the plugin in segments, is cut into blocks of
// multiples of 512 bytes, best fit first, and joined again; segments go back by trim(), when
// memory runs out, and when otherwise more would be held than ever before. A freed block remembers
// which streams may still use it and up to where. It is handed out again
//   - for any use, once all of them are past it; they are asked only when it is wanted;
//   - for use on a stream at once where they are that stream, or ones it has waited for.
// Freeing never waits and makes no call to the plugin. Neither does an allocation that the
// cache can serve, but to ask how far a stream is, or to have it tell later (an event).
// Thread-safe. One mutex a device, never held while the plugin allocates or frees.
class Memory {
 public:
  explicit Memory(Device& device);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For use at once, by any stream or the host.
  Status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  // Device memory for work enqueued on |stream| from now on, and what is ordered after it.
  Status alloc(Stream& stream, uint64_t size, void** out_pointer);
  // Free once all that is enqueued now, on any stream of any device, is over: copies
  // between devices read the memory from streams of either.
  Status free(void* pointer);
  // Free once what |stream| has enqueued is over; the caller answers for other streams.
  Status free(Stream& stream, void* pointer);
  // Gives segments in which all is free and idle back to the device.
  void trim();
  // Gives everything back, at the device's end; logs how much was still allocated.
  void release_all();

  // The allocation that |pointer| lies in; false if there is none. Without a lock, in some
  // 5 ns, where this thread has asked for |pointer| before, or allocated it.
  bool find(const void* pointer, Allocation* out_allocation) const;
  // KEEL_OK if [pointer, pointer + size) lies in one allocation; |what| names the
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

  // Whether a thread, by its notes, knows that [pointer, pointer + size) lies in one allocation
  // of device memory: a look without a lock, a call, or a failure's text. Where it does not,
  // check_range() tells, and takes a note.
  bool is_known_range(const RememberedBlocks& notes, const void* pointer, uint64_t size) const {
    static_assert(KEEL_MEMORY_DEVICE == 0);
    const RememberedBlock& known = notes.at(pointer);
    const uint64_t to_end =
        reinterpret_cast<uintptr_t>(known.end) - reinterpret_cast<uintptr_t>(pointer);
    return known.memory == id_ && to_end <= known.size && size <= to_end &&
           known.block->generation.load(std::memory_order_acquire) == known.generation;
  }

  // The same of memory that the host reaches: where it has it. NULL where that is not known.
  char* known_alias(const RememberedBlocks& notes, const void* pointer, uint64_t size) const {
    if (!is_known_range(notes, pointer, size)) return nullptr;
    const RememberedBlock& known = notes.at(pointer);
    if (known.host_alias == nullptr) return nullptr;
    return known.host_alias + (static_cast<const char*>(pointer) - known.base);
  }

  // The segment that an allocation at |pointer| lies in; false if there is none.
  bool find_segment(const void* pointer, MemorySegment* out_segment) const;

  // Fills in all but the header.
  void get_stats(keel_memory_stats* out_stats) const;
  void reset_peaks();
  // Advances before memory goes back to the plugin, whose addresses may then stand for
  // other memory: for those who remember where memory lies. Takes no lock.
  uint64_t releases() const { return native_frees_.load(std::memory_order_acquire); }
  // As keel_memory_snapshot describes it.
  std::string snapshot() const;

 private:
  // What a request comes to.
  struct Request {
    keel_memory_kind kind;
    uint64_t size;   // as asked for
    uint64_t block;  // rounded
    SizeClass size_class;
    Stream* stream;  // NULL: for any
  };

  // With a lock, and remembers it.
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
  // Adds those of |block| that are not known to be passed, one for each stream.
  static void gather_points(const MemoryBlock& block, std::vector<StreamPoint>* points);
  static void poll_all(const std::vector<StreamPoint>& points, WakeList& wake);
  static void add_point(MemoryBlock& block, Timeline& timeline, uint64_t position);
  uint64_t segment_size(const Request& request) const;
  std::vector<MemorySegment> remove_idle(uint64_t bytes, WakeList& wake);

  // Without it:
  Status allocate_native(const Request& request, uint64_t segment_size, void** out_pointer);
  Status allocate_segment(const Request& request, uint64_t segment_size, void** out_pointer);
  Status make_room(const Request& request, void** out_pointer);
  void wait_for_cached();
  void give_back(const std::vector<MemorySegment>& segments);
  void give_back(const MemorySegment& segment);
  Status out_of_memory(const Request& request, const Status& cause) const;

  Device& device_;
  // Never that of another, also after a shutdown. A multiple of 4: a kind fits in.
  const uint64_t id_;
  mutable std::mutex mutex_;
  mutable BlockStore store_;  // a look-up that misses reads it
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
