// SPDX-License-Identifier: Apache-2.0
// Epoch-based reclamation: threads follow pointers of shared tables without counting
// references, and what leaves a table is freed once nobody can be following it.
#ifndef KEEL_CORE_EPOCH_H_
#define KEEL_CORE_EPOCH_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "core/remembered_blocks.h"

namespace keel {

namespace epoch {

// One a thread, kept for the next thread when it ends.
struct alignas(64) Participant {
  std::atomic<uint64_t> mark{0};  // the epoch its section began in; 0: in none
  // The thread's pointer, where its sections begin with plain stores: about 1 ns instead of 6,
  // since reclaim() has the kernel fence all threads (membarrier).
  std::atomic<const void*> thread{nullptr};
  // Its own notes, here for a look-up that has the participant at hand anyway. The next thread
  // has the use of them.
  RememberedBlocks* remembered = nullptr;  // never, once it has been taken
  std::atomic<const char*> call{nullptr};  // for InsideCall: the C function; NULL: in none
  Participant* next = nullptr;
  std::atomic<bool> taken{false};
  bool listed = false;  // guarded by |taken|
};

// Counts what was retired; begins at 1.
inline constinit std::atomic<uint64_t> g_epoch{1};

// A thread finds its participant by its thread pointer, which is a register, and not as
// thread-local memory: where libkeel is loaded late that would be a call of 20 instructions, or
// could not be had at all (docs/decisions/018). Of threads with one seat the first has it.
constexpr uint32_t kSeatBits = 10;
inline constinit std::array<Participant, 1 << kSeatBits> g_seats{};

inline const void* thread_pointer() {
#if defined(__x86_64__)
  const void* self = nullptr;
  asm("mov %%fs:0, %0" : "=r"(self));  // the ABI has it there; not each compiler knows
  return self;
#else
  return __builtin_thread_pointer();
#endif
}
inline Participant& seat_of(const void* thread) {
  const auto page = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(thread) >> 12);
  return g_seats[page * 0x9e3779b1u >> (32 - kSeatBits)];
}
// The calling thread's; NULL before its first section, and where it has no seat or the kernel
// does not fence.
inline Participant* seated() {
  const void* self = thread_pointer();
  Participant& seat = seat_of(self);
  return seat.thread.load(std::memory_order_relaxed) == self ? &seat : nullptr;
}

inline void begin(Participant& participant) {
  participant.mark.store(g_epoch.load(std::memory_order_acquire), std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// For a thread that is not seated. NULL if it is in a section already.
Participant* begin_slowly();
// The calling thread's, seated or not. NULL before its first section.
Participant* registered_slowly() noexcept;
// The same, but one is made before its first section. Throws std::bad_alloc.
Participant& register_calling_thread();
// Those of all threads, of which some have ended, linked by |next|.
Participant* first_participant() noexcept;
// A full fence on all threads of the process that mark themselves with plain stores.
void fence_all_threads() noexcept;
inline Participant* registered() noexcept {
  Participant* participant = seated();
  return participant != nullptr ? participant : registered_slowly();
}
// What the calling thread remembers of memory.
inline const RememberedBlocks& notes() noexcept {
  const Participant* participant = registered();
  return participant != nullptr ? *participant->remembered : RememberedBlocks::nothing();
}

}  // namespace epoch

// While one lives, nothing that was reachable when it began, or later, is reclaimed.
// Short: no waiting for a device, a lock that is held across such a wait, or the user.
// Whoever has to wait takes a Ref first and leaves. May be nested.
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

  // Before the end of the scope.
  void leave() {
    if (participant_ == nullptr) return;
    participant_->mark.store(0, std::memory_order_release);
    participant_ = nullptr;
  }

 private:
  epoch::Participant* participant_ = nullptr;  // NULL: nested in another section
};

// The same where nothing is unusual: who() is not NULL. Else it takes an EpochSection.
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

// A link for what waits to be reclaimed, inside the object itself: retiring allocates
// nothing.
struct Retired {
  Retired* next_retired = nullptr;
  uint64_t retired_at = 0;
  void (*reclaim)(Retired* self) noexcept = nullptr;
};

// |object->reclaim(object)| runs once every section of now has ended, within one of the
// calls below; the caller has made |object| unreachable. Any thread, with any lock held.
void retire(Retired* object) noexcept;
// Reclaims what can be, and returns how many; about 2 us. Never waits for a section to
// end. The caller holds no lock and is in no section, which would hold its own back.
uint64_t reclaim_retired() noexcept;
// The same once 64 objects more have been retired than were left the last time.
void reclaim_if_many() noexcept;
// The same until nothing more can be, also of what the reclaimed let go of.
void reclaim_all_retired() noexcept;
// Number of objects retired and not reclaimed.
uint64_t retired_count() noexcept;

}  // namespace keel

#endif  // KEEL_CORE_EPOCH_H_
