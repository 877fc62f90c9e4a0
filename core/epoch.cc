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

std::atomic<EpochRecord*> g_epoch_records{nullptr};
// Whether the kernel fences; settled before the first thread registers.
std::atomic<bool> g_kernel_fences{false};
// The calling thread's epoch_record, with or without a slot.
thread_local constinit EpochRecord* t_registered = nullptr;

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

void release_epoch_record(void* released) {
  t_registered = nullptr;
  auto* epoch_record = static_cast<EpochRecord*>(released);
  epoch_record->thread.store(nullptr, std::memory_order_relaxed);
  epoch_record->taken.store(false, std::memory_order_release);
}

// A pthread key and not a thread_local with a destructor: destructors of other thread_locals may
// still call Keel, and the destructor of a key that is set again runs again.
pthread_key_t epoch_record_key() {
  static const pthread_key_t key = [] {
    pthread_key_t created = 0;
    pthread_key_create(&created, &release_epoch_record);
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
  for (EpochRecord* epoch_record = g_epoch_records.load(std::memory_order_acquire);
       epoch_record != nullptr; epoch_record = epoch_record->next) {
    const uint64_t mark = epoch_record->mark.load(std::memory_order_seq_cst);
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

bool take(EpochRecord& epoch_record) {
  bool taken = false;
  return !epoch_record.taken.load(std::memory_order_relaxed) &&
         epoch_record.taken.compare_exchange_strong(taken, true, std::memory_order_acquire);
}

// For a thread whose slot another thread owns.
EpochRecord& take_any() {
  for (EpochRecord* each = g_epoch_records.load(std::memory_order_acquire); each != nullptr;
       each = each->next) {
    if (take(*each)) return *each;
  }
  auto* made = new EpochRecord;
  made->taken.store(true, std::memory_order_relaxed);
  return *made;
}

EpochRecord* register_thread() {
  const pthread_key_t key = epoch_record_key();
  const void* self = thread_pointer();
  EpochRecord& slot = slot_of(self);
  const bool owns_slot = take(slot);
  EpochRecord& mine = owns_slot ? slot : take_any();
  if (!mine.listed) {
    mine.listed = true;
    mine.lookup_cache = &BlockLookupCache::nothing();
    mine.next = g_epoch_records.load(std::memory_order_relaxed);
    while (!g_epoch_records.compare_exchange_weak(mine.next, &mine, std::memory_order_release,
                                                  std::memory_order_relaxed)) {
    }
  }
  pthread_setspecific(key, &mine);
  t_registered = &mine;
  if (owns_slot && g_kernel_fences.load(std::memory_order_relaxed)) {
    mine.thread.store(self, std::memory_order_relaxed);
  }
  return &mine;
}

}  // namespace

EpochRecord* registered_slowly() noexcept {
  return t_registered;
}

EpochRecord& register_calling_thread() {
  return t_registered != nullptr ? *t_registered : *register_thread();
}

EpochRecord* first_epoch_record() noexcept {
  return g_epoch_records.load(std::memory_order_acquire);
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

EpochRecord* begin_slowly() {
  EpochRecord* epoch_record = &register_calling_thread();
  if (epoch_record->mark.load(std::memory_order_relaxed) != 0) return nullptr;
  if (g_kernel_fences.load(std::memory_order_relaxed)) {
    begin(*epoch_record);
    return epoch_record;
  }
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences.
  epoch_record->mark.exchange(g_epoch.load(std::memory_order_acquire), std::memory_order_seq_cst);
#else
  begin(*epoch_record);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return epoch_record;
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
