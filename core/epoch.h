// SPDX-License-Identifier: Apache-2.0
// Epoch-based reclamation: threads follow pointers of shared tables without counting references; an
// object removed from a table is freed once no thread can still follow a pointer to it.
#ifndef KEEL_CORE_EPOCH_H_
#define KEEL_CORE_EPOCH_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "core/block_lookup_cache.h"

namespace keel {

namespace epoch {

// Epoch record of one thread; reused by a new thread after its thread ends.
struct alignas(64) EpochRecord {
  std::atomic<uint64_t> mark{0};  // epoch in which the thread's section began; 0: no section
  // The thread pointer, if the thread begins sections with plain stores. A section then takes about
  // 1 ns instead of 6, since reclaim_retired() has the kernel fence all threads (membarrier).
  std::atomic<const void*> thread{nullptr};
  // The thread's lookup cache, stored here for look-ups that already hold the epoch_record. The
  // next thread that takes the epoch_record inherits the cache.
  BlockLookupCache* lookup_cache = nullptr;  // not NULL once taken
  std::atomic<const char*> call{nullptr};    // for InsideCall: the C function; NULL: in none
  EpochRecord* next = nullptr;
  std::atomic<bool> taken{false};
  bool listed = false;  // guarded by |taken|
};

// Advances with every retired object; begins at 1.
inline constinit std::atomic<uint64_t> g_epoch{1};

// A thread finds its epoch_record through its thread pointer, a register, and not as thread-local
// memory: in a libkeel that is loaded late, thread-local memory costs a call of 20 instructions or
// is not available (docs/decisions/018). If several threads map to one slot, the first owns the
// slot.
constexpr uint32_t kSlotBits = 10;
inline constinit std::array<EpochRecord, 1 << kSlotBits> g_slots{};

inline const void* thread_pointer() {
#if defined(__x86_64__)
  const void* self = nullptr;
  asm("mov %%fs:0, %0" : "=r"(self));  // the ABI puts it there; not every compiler knows
  return self;
#else
  return __builtin_thread_pointer();
#endif
}
inline EpochRecord& slot_of(const void* thread) {
  const auto page = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(thread) >> 12);
  return g_slots[page * 0x9e3779b1u >> (32 - kSlotBits)];
}
// The calling thread's epoch_record; NULL before the thread's first section, if another thread owns
// the slot, or if the kernel does not fence.
inline EpochRecord* own_slot() {
  const void* self = thread_pointer();
  EpochRecord& slot = slot_of(self);
  return slot.thread.load(std::memory_order_relaxed) == self ? &slot : nullptr;
}

inline void begin(EpochRecord& epoch_record) {
  epoch_record.mark.store(g_epoch.load(std::memory_order_acquire), std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// Begins a section for a thread without a slot. NULL if the thread is already in a section.
EpochRecord* begin_slowly();
// The calling thread's epoch_record, with or without a slot. NULL before the thread's first
// section.
EpochRecord* registered_slowly() noexcept;
// Like registered_slowly(), but creates the epoch_record before the first section. Throws
// std::bad_alloc.
EpochRecord& register_calling_thread();
// The epoch_records of all threads, including ended threads, linked by |next|.
EpochRecord* first_epoch_record() noexcept;
// Full memory fence on all threads of the process that mark sections with plain stores.
void fence_all_threads() noexcept;
inline EpochRecord* registered() noexcept {
  EpochRecord* epoch_record = own_slot();
  return epoch_record != nullptr ? epoch_record : registered_slowly();
}
// The calling thread's lookup cache for memory.
inline const BlockLookupCache& lookup_cache() noexcept {
  const EpochRecord* epoch_record = registered();
  return epoch_record != nullptr ? *epoch_record->lookup_cache : BlockLookupCache::nothing();
}

}  // namespace epoch

// While a section lives, no object is reclaimed that was reachable at its begin or later. Keep
// sections short: inside a section, do not wait for a device or the user, nor for a lock that is
// held across a wait for either. A caller that has to wait takes a Ref first and leaves the
// section. May be nested.
class EpochSection {
 public:
  EpochSection() {
    epoch::EpochRecord* epoch_record = epoch::own_slot();
    if (epoch_record == nullptr) [[unlikely]] {
      epoch_record_ = epoch::begin_slowly();
    } else if (epoch_record->mark.load(std::memory_order_relaxed) == 0) {
      epoch_record_ = epoch_record;
      epoch::begin(*epoch_record);
    }
  }
  ~EpochSection() { leave(); }
  EpochSection(const EpochSection&) = delete;
  EpochSection& operator=(const EpochSection&) = delete;

  // Ends the section before the end of the scope.
  void leave() {
    if (epoch_record_ == nullptr) return;
    epoch_record_->mark.store(0, std::memory_order_release);
    epoch_record_ = nullptr;
  }

 private:
  epoch::EpochRecord* epoch_record_ = nullptr;  // NULL: nested in another section
};

// Section for the fast path: requires that who() is not NULL. If who() is NULL, the caller uses an
// EpochSection.
class ShortEpochSection {
 public:
  static epoch::EpochRecord* who() {
    epoch::EpochRecord* epoch_record = epoch::own_slot();
    return epoch_record != nullptr && epoch_record->mark.load(std::memory_order_relaxed) == 0
               ? epoch_record
               : nullptr;
  }
  explicit ShortEpochSection(epoch::EpochRecord& who) : epoch_record_(who) { epoch::begin(who); }
  ~ShortEpochSection() { epoch_record_.mark.store(0, std::memory_order_release); }
  ShortEpochSection(const ShortEpochSection&) = delete;
  ShortEpochSection& operator=(const ShortEpochSection&) = delete;

 private:
  epoch::EpochRecord& epoch_record_;
};

// Intrusive link of an object that waits for reclamation, so that retiring allocates nothing.
struct Retired {
  Retired* next_retired = nullptr;
  uint64_t retired_at = 0;
  void (*reclaim)(Retired* self) noexcept = nullptr;
};

// |object->reclaim(object)| runs once all current sections have ended, within one of the calls
// below. The caller has made |object| unreachable. Any thread, with any lock held.
void retire(Retired* object) noexcept;
// Reclaims all objects that no section holds back, and returns their number; takes about 2 us.
// Never waits for a section to end. The caller holds no lock and is in no section, which would hold
// back its own objects.
uint64_t reclaim_retired() noexcept;
// Calls reclaim_retired() if at least 64 objects have been retired since the last reclamation.
void reclaim_if_many() noexcept;
// Repeats reclaim_retired() until no object can be reclaimed, so that objects released by reclaimed
// objects go too.
void reclaim_all_retired() noexcept;
// Number of objects retired and not yet reclaimed.
uint64_t retired_count() noexcept;

}  // namespace keel

#endif  // KEEL_CORE_EPOCH_H_
