// Epoch-based reclamation: threads follow pointers of shared tables without counting
// references, and what leaves a table is freed once nobody can be following it.
#ifndef KEEL_CORE_EPOCH_H_
#define KEEL_CORE_EPOCH_H_

#include <atomic>
#include <cstdint>

namespace keel {

namespace epoch {

// One a thread, kept for the next thread when it ends.
struct alignas(64) Participant {
  std::atomic<uint64_t> mark{0};  // the epoch its section began in; 0: in none
  std::atomic<bool> taken{true};
  Participant* next = nullptr;
};

// Counts what was retired; begins at 1.
extern std::atomic<uint64_t> g_epoch;
// Whether reclaim() has the kernel fence all threads (membarrier), so that a section
// begins with plain stores: about 1 ns instead of 6.
extern std::atomic<bool> g_kernel_fences;
// Initial-exec: 8 bytes of the static room that glibc keeps for libraries loaded later,
// against a call of __tls_get_addr at each section.
extern thread_local constinit Participant* t_participant __attribute__((tls_model("initial-exec")));

Participant* register_thread();
// mark.store(|now|) and a full fence, where the kernel does not fence for us.
void begin_fenced(Participant& participant, uint64_t now);

}  // namespace epoch

// While one lives, nothing that was reachable when it began, or later, is reclaimed.
// Short: no waiting for a device, a lock that is held across such a wait, or the user.
// Whoever has to wait takes a Ref first and leaves. May be nested.
class EpochSection {
 public:
  EpochSection() {
    epoch::Participant* participant = epoch::t_participant;
    if (participant == nullptr) [[unlikely]] {
      participant = epoch::register_thread();
    }
    if (participant->mark.load(std::memory_order_relaxed) != 0) return;
    participant_ = participant;
    const uint64_t now = epoch::g_epoch.load(std::memory_order_acquire);
    if (epoch::g_kernel_fences.load(std::memory_order_relaxed)) [[likely]] {
      participant->mark.store(now, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      epoch::begin_fenced(*participant, now);
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
