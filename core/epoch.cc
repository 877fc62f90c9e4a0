// SPDX-License-Identifier: Apache-2.0
#include "core/epoch.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace keel {

namespace epoch {

namespace {

std::atomic<Participant*> g_participants{nullptr};
// Whether the kernel fences; settled before the first thread registers.
std::atomic<bool> g_kernel_fences{false};
// The calling thread's participant, with or without a slot.
thread_local constinit Participant* t_registered = nullptr;

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

void release_participant(void* released) {
  t_registered = nullptr;
  auto* participant = static_cast<Participant*>(released);
  participant->thread.store(nullptr, std::memory_order_relaxed);
  participant->taken.store(false, std::memory_order_release);
}

// A pthread key and not a thread_local with a destructor: destructors of other thread_locals may
// still call Keel, and the destructor of a key that is set again runs again.
pthread_key_t participant_key() {
  static const pthread_key_t key = [] {
    pthread_key_t created = 0;
    pthread_key_create(&created, &release_participant);
    if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0) {
      g_kernel_fences.store(true, std::memory_order_seq_cst);
    }
    return created;
  }();
  return key;
}

// The epoch in which the oldest current section began; UINT64_MAX if there is none.
uint64_t oldest_section() {
  uint64_t oldest = UINT64_MAX;
  for (Participant* participant = g_participants.load(std::memory_order_acquire);
       participant != nullptr; participant = participant->next) {
    const uint64_t mark = participant->mark.load(std::memory_order_seq_cst);
    if (mark != 0) oldest = std::min(oldest, mark);
  }
  return oldest;
}

// Retired objects that wait for reclamation, oldest first.
struct Queue {
  std::mutex mutex;
  Retired* first = nullptr;
  Retired* last = nullptr;
  std::atomic<uint64_t> count{0};     // written under |mutex|
  std::atomic<uint64_t> look_at{64};  // count at which reclaim_if_many() reclaims next
};
Queue& queue() {
  static Queue& instance = *new Queue;  // outlives every thread that may retire
  return instance;
}
constexpr uint64_t kBatch = 64;

bool take(Participant& participant) {
  bool taken = false;
  return !participant.taken.load(std::memory_order_relaxed) &&
         participant.taken.compare_exchange_strong(taken, true, std::memory_order_acquire);
}

// For a thread whose slot another thread owns.
Participant& take_any() {
  for (Participant* each = g_participants.load(std::memory_order_acquire); each != nullptr;
       each = each->next) {
    if (take(*each)) return *each;
  }
  auto* made = new Participant;
  made->taken.store(true, std::memory_order_relaxed);
  return *made;
}

Participant* register_thread() {
  const pthread_key_t key = participant_key();
  const void* self = thread_pointer();
  Participant& seat = seat_of(self);
  const bool is_seated = take(seat);
  Participant& mine = is_seated ? seat : take_any();
  if (!mine.listed) {
    mine.listed = true;
    mine.remembered = &RememberedBlocks::nothing();
    mine.next = g_participants.load(std::memory_order_relaxed);
    while (!g_participants.compare_exchange_weak(mine.next, &mine, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
    }
  }
  pthread_setspecific(key, &mine);
  t_registered = &mine;
  if (is_seated && g_kernel_fences.load(std::memory_order_relaxed)) {
    mine.thread.store(self, std::memory_order_relaxed);
  }
  return &mine;
}

}  // namespace

Participant* registered_slowly() noexcept {
  return t_registered;
}

Participant& register_calling_thread() {
  return t_registered != nullptr ? *t_registered : *register_thread();
}

Participant* first_participant() noexcept {
  return g_participants.load(std::memory_order_acquire);
}

// For threads whose sections begin without a fence of their own. The caller's removals precede the
// fences here. The flag is read after the local fence: if the flag is still unset, every section
// without a fence of its own begins after the removals.
void fence_all_threads() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  if (g_kernel_fences.load(std::memory_order_seq_cst)) {
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
}

Participant* begin_slowly() {
  Participant* participant = &register_calling_thread();
  if (participant->mark.load(std::memory_order_relaxed) != 0) return nullptr;
  if (g_kernel_fences.load(std::memory_order_relaxed)) {
    begin(*participant);
    return participant;
  }
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences.
  participant->mark.exchange(g_epoch.load(std::memory_order_acquire), std::memory_order_seq_cst);
#else
  begin(*participant);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return participant;
}

}  // namespace epoch

void retire(Retired* object) noexcept {
  epoch::Queue& queue = epoch::queue();
  std::lock_guard lock(queue.mutex);
  // A section that sees the new epoch also sees that the object is unlinked.
  object->retired_at = epoch::g_epoch.fetch_add(1, std::memory_order_seq_cst);
  object->next_retired = nullptr;
  (queue.last == nullptr ? queue.first : queue.last->next_retired) = object;
  queue.last = object;
  queue.count.store(queue.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

uint64_t reclaim_retired() noexcept {
  epoch::Queue& queue = epoch::queue();
  Retired* done = nullptr;
  uint64_t reclaimed = 0;
  {
    std::lock_guard lock(queue.mutex);
    if (queue.first == nullptr) return 0;
    epoch::fence_all_threads();
    const uint64_t oldest = epoch::oldest_section();
    // Epochs rise along the list, so cut the list at the first object that must stay.
    Retired* last_done = nullptr;
    Retired* each = queue.first;
    for (; each != nullptr && each->retired_at < oldest; each = each->next_retired) {
      last_done = each;
      ++reclaimed;
    }
    if (last_done != nullptr) {
      done = std::exchange(queue.first, each);
      last_done->next_retired = nullptr;
      if (each == nullptr) queue.last = nullptr;
    }
    const uint64_t left = queue.count.load(std::memory_order_relaxed) - reclaimed;
    queue.count.store(left, std::memory_order_relaxed);
    queue.look_at.store(left + epoch::kBatch, std::memory_order_relaxed);
  }
  while (done != nullptr) {
    Retired* next = done->next_retired;
    done->reclaim(done);
    done = next;
  }
  return reclaimed;
}

void reclaim_if_many() noexcept {
  const epoch::Queue& queue = epoch::queue();
  if (queue.count.load(std::memory_order_relaxed) >=
      queue.look_at.load(std::memory_order_relaxed)) {
    reclaim_retired();
  }
}

void reclaim_all_retired() noexcept {
  while (reclaim_retired() != 0) {
  }
}

uint64_t retired_count() noexcept {
  return epoch::queue().count.load(std::memory_order_relaxed);
}

}  // namespace keel
