// SPDX-License-Identifier: Apache-2.0
// Epoch-based reclamation: threads follow pointers of shared tables without counting references; an
// object removed from a table is freed once no thread can still follow a pointer to it.
#ifndef KEEL_CORE_EPOCH_H_
#define KEEL_CORE_EPOCH_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "core/remembered_blocks.h"

namespace keel {

namespace epoch {

// Epoch record of one thread; reused by a new thread after its thread ends.
struct alignas(64) Participant {
  std::atomic<uint64_t> mark{0};  // epoch in which the thread's section began; 0: no section
  // The thread pointer, if the thread begins sections with plain stores. A section then takes about
  // 1 ns instead of 6, since reclaim_retired() has the kernel fence all threads (membarrier).
  std::atomic<const void*> thread{nullptr};
  // The thread's lookup cache, stored here for look-ups that already hold the participant. The next
  // thread that takes the participant inherits the cache.
  RememberedBlocks* remembered = nullptr;  // not NULL once taken
  std::atomic<const char*> call{nullptr};  // for InsideCall: the C function; NULL: in none
  Participant* next = nullptr;
  std::atomic<bool> taken{false};
  bool listed = false;  // guarded by |taken|
};

// Advances with every retired object; begins at 1.
inline constinit std::atomic<uint64_t> g_epoch{1};

// A thread finds its participant through its thread pointer, a register, and not as thread-local
// memory: in a libkeel that is loaded late, thread-local memory costs a call of 20 instructions or
// is not available (docs/decisions/018). If several threads map to one slot, the first owns the
// slot.
constexpr uint32_t kSeatBits = 10;
inline constinit std::array<Participant, 1 << kSeatBits> g_seats{};

inline const void* thread_pointer() {
#if defined(__x86_64__)
  const void* self = nullptr;
  asm("mov %%fs:0, %0" : "=r"(self));  // the ABI puts it there; not every compiler knows
  return self;
#else
  return __builtin_thread_pointer();
#endif
}
inline Participant& seat_of(const void* thread) {
  const auto page = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(thread) >> 12);
  return g_seats[page * 0x9e3779b1u >> (32 - kSeatBits)];
}
// The calling thread's participant; NULL before the thread's first section, if another thread owns
// the slot, or if the kernel does not fence.
inline Participant* seated() {
  const void* self = thread_pointer();
  Participant& seat = seat_of(self);
  return seat.thread.load(std::memory_order_relaxed) == self ? &seat : nullptr;
}

inline void begin(Participant& participant) {
  participant.mark.store(g_epoch.load(std::memory_order_acquire), std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// Begins a section for a thread without a slot. NULL if the thread is already in a section.
Participant* begin_slowly();
// The calling thread's participant, with or without a slot. NULL before the thread's first section.
Participant* registered_slowly() noexcept;
// Like registered_slowly(), but creates the participant before the first section. Throws
// std::bad_alloc.
Participant& register_calling_thread();
// The participants of all threads, including ended threads, linked by |next|.
Participant* first_participant() noexcept;
// Full memory fence on all threads of the process that mark sections with plain stores.
void fence_all_threads() noexcept;
inline Participant* registered() noexcept {
  Participant* participant = seated();
  return participant != nullptr ? participant : registered_slowly();
}
// The calling thread's lookup cache for memory.
inline const RememberedBlocks& notes() noexcept {
  const Participant* participant = registered();
  return participant != nullptr ? *participant->remembered : RememberedBlocks::nothing();
}

}  // namespace epoch

// While a section lives, no object is reclaimed that was reachable at its begin or later. Keep
// sections short: inside a section, do not wait for a device or the user, nor for a lock that is
// held across a wait for either. A caller that has to wait takes a Ref first and leaves the
// section. May be nested.
class EpochSection {
 public:
  EpochSection() {
    epoch::Participant* participant = epoch::seated();
    if (participant == nullptr) [[unlikely]] {
      participant_ = epoch::begin_slowly();
    } else if (participant->mark.load(std::memory_order_relaxed) == 0) {
      participant_ = participant;
      epoch::begin(*participant);
    }
  }
  ~EpochSection() { leave(); }
  EpochSection(const EpochSection&) = delete;
  EpochSection& operator=(const EpochSection&) = delete;

  // Ends the section before the end of the scope.
  void leave() {
    if (participant_ == nullptr) return;
    participant_->mark.store(0, std::memory_order_release);
    participant_ = nullptr;
  }

 private:
  epoch::Participant* participant_ = nullptr;  // NULL: nested in another section
};

// Section for the fast path: requires that who() is not NULL. If who() is NULL, the caller uses an
// EpochSection.
class ShortEpochSection {
 public:
  static epoch::Participant* who() {
    epoch::Participant* participant = epoch::seated();
    return participant != nullptr && participant->mark.load(std::memory_order_relaxed) == 0
               ? participant
               : nullptr;
  }
  explicit ShortEpochSection(epoch::Participant& who) : participant_(who) { epoch::begin(who); }
  ~ShortEpochSection() { participant_.mark.store(0, std::memory_order_release); }
  ShortEpochSection(const ShortEpochSection&) = delete;
  ShortEpochSection& operator=(const ShortEpochSection&) = delete;

 private:
  epoch::Participant& participant_;
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
