// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/operation_board.h"

#include <algorithm>

namespace keel {

namespace {

// Most bytes prefetched for the next operation: so many cache lines are in flight at once.
constexpr uint64_t kMostAhead = 4 << 10;

// A sleeper waits for all ranks, so looking for sleepers can wait until all have published. The
// look needs a fence, which stalls until other cores release the descriptor's cache line; a later
// fence stalls while the peers' descriptors are in transit anyway.
#if defined(__SANITIZE_THREAD__)  // does not model fences
constexpr bool kCanWakeLater = false;
#else
constexpr bool kCanWakeLater = true;
#endif

}  // namespace

// ---- published ------------------------------------------------------------------

bool OperationBoard::all_published(uint64_t sequence) const {
  if (waiter_.policy().oversubscribed()) {
    const uint32_t now = words().published(sequence).load(std::memory_order_seq_cst);
    return static_cast<int32_t>(now - publications_by(sequence)) >= 0;
  }
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!has_published(rank, sequence)) return false;
  }
  return true;
}

void OperationBoard::publish(uint32_t rank, uint64_t sequence) {
  descriptor(rank, sequence).sequence.store(sequence + 1, std::memory_order_seq_cst);
  if (waiter_.policy().oversubscribed()) {
    std::atomic<uint32_t>& count = words().published(sequence);
    const bool is_last =
        count.fetch_add(1, std::memory_order_seq_cst) + 1 == publications_by(sequence);
    if (is_last && words().any_sleeper()) WakeWords::wake(count);
    return;
  }
  words().wake_sleepers();
}

void OperationBoard::publish_ahead(uint32_t rank, uint64_t sequence) {
  if (kCanWakeLater && !waiter_.policy().oversubscribed()) {
    descriptor(rank, sequence).sequence.store(sequence + 1, std::memory_order_release);
  } else {
    publish(rank, sequence);
  }
}

bool OperationBoard::poll_published(uint32_t rank, uint64_t sequence, uint32_t turns,
                                    uint64_t eager_bytes) {
  const auto are_published = [&] { return all_published(sequence); };
  const bool are_there = waiter_.spin(turns, are_published) || are_published();
  if constexpr (kCanWakeLater) {
    if (waiter_.policy().oversubscribed()) return are_there;
    if (are_there && eager_bytes > sizeof(OperationDescriptor::small)) {
      // All ranks are done with the operation before, whose eager buffer the next operation reuses,
      // most likely for as many bytes. Prefetching for write moves the lines out of the readers'
      // caches while this operation is computed. 4 KiB of two ranks take 1.20 us instead of 1.40;
      // at 1 KiB the gain is within the noise.
      const uint8_t* const next = eager(rank, sequence + 1);
      const uint64_t bytes = std::min(eager_bytes, kMostAhead);
      for (uint64_t at = 0; at < bytes; at += 64) __builtin_prefetch(next + at, /*rw=*/1);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    words().wake_sleepers();
  }
  return are_there;
}

Status OperationBoard::await_descriptors(uint64_t sequence, WaitContext& wait_context) {
  if (all_published(sequence)) return {};
  return waiter_.await(
      waiter_.policy().oversubscribed() ? words().published(sequence) : words().changes(),
      [&] { return all_published(sequence); },
      [&](uint32_t rank) { return !has_published(rank, sequence); }, wait_context);
}

// ---- done -----------------------------------------------------------------------

void OperationBoard::publish_done(uint32_t rank, uint64_t sequence, bool urgent) {
  memory_.ranks[rank].done.store(sequence + 1,
                                 urgent ? std::memory_order_seq_cst : std::memory_order_release);
  if (!words().any_room_sleeper()) return;
  // The waiters' condition changes only when the last rank is done.
  if (all_done(sequence + 1)) WakeWords::wake_changed(words().room());
}

bool OperationBoard::all_done(uint64_t operations) {
  // Acquired, since the ranks of one process share the count: who finds it here has not read the
  // records, and overwrites descriptors that a peer has read before it stored its record.
  if (over_.load(std::memory_order_acquire) >= operations) return true;
  uint64_t least = UINT64_MAX;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    least = std::min(least, memory_.ranks[rank].done.load(std::memory_order_seq_cst));
  }
  over_.store(least, std::memory_order_release);
  return least >= operations;
}

bool OperationBoard::has_room(uint64_t sequence) {
  return sequence < kDescriptors || all_done(sequence - kDescriptors + 1);
}

Status OperationBoard::await_room(uint64_t sequence, WaitContext& wait_context) {
  if (has_room(sequence)) return {};
  words().begin_room_sleep();
  const uint64_t oldest = sequence - kDescriptors;
  Status status = waiter_.await(
      words().room(), [&] { return has_room(sequence); },
      [&](uint32_t rank) { return !is_done(rank, oldest); }, wait_context);
  words().end_room_sleep();
  return status;
}

bool OperationBoard::is_done_with_all(uint32_t rank) const {
  uint64_t published = 0;
  for (uint64_t place = 0; place < kDescriptors; ++place) {
    published =
        std::max(published, descriptor(rank, place).sequence.load(std::memory_order_acquire));
  }
  return memory_.ranks[rank].done.load(std::memory_order_acquire) == published;
}

// ---- urgent communicators -------------------------------------------------------

void OperationBoard::publish_matched(uint64_t sequence) {
  std::atomic<uint64_t>& matched = memory_.shared->matched;
  uint64_t known = matched.load(std::memory_order_relaxed);
  while (known <= sequence &&
         !matched.compare_exchange_weak(known, sequence + 1, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

bool OperationBoard::is_under_way() {
  return !all_done(memory_.shared->matched.load(std::memory_order_acquire)) &&
         !waiter_.failures().failed();
}

void OperationBoard::await_over(const Deadline& deadline) {
  words().begin_room_sleep();
  while (true) {
    const uint32_t seen = words().room().load(std::memory_order_acquire);
    if (!is_under_way() || deadline.passed()) break;
    WakeWords::park(words().room(), seen, deadline);
  }
  words().end_room_sleep();
}

// ---- shown calls ----------------------------------------------------------------

void OperationBoard::show_call(uint32_t rank, uint64_t shown, const Fingerprint& print) {
  RankRecord& own = memory_.ranks[rank];
  // A reader that sees one of the next two stores sees that the call before is no longer shown.
  own.shown.store(kShownNothing, std::memory_order_relaxed);
  own.shown_count.store(print.count, std::memory_order_release);
  own.shown_kind.store(print.kind(), std::memory_order_release);
  own.shown.store(shown, std::memory_order_release);
}

void OperationBoard::hide_call(uint32_t rank) {
  memory_.ranks[rank].shown.store(kShownNothing, std::memory_order_release);
}

uint64_t OperationBoard::shown_call(uint32_t rank, Fingerprint* out_print) const {
  const RankRecord& other = memory_.ranks[rank];
  const uint64_t shown = other.shown.load(std::memory_order_acquire);
  if (shown == kShownNothing) return kShownNothing;
  const uint64_t count = other.shown_count.load(std::memory_order_acquire);
  *out_print = Fingerprint::of(count, other.shown_kind.load(std::memory_order_acquire));
  return other.shown.load(std::memory_order_relaxed) == shown ? shown : kShownNothing;
}

// ---- barriers -------------------------------------------------------------------

void OperationBoard::arrive(uint32_t rank, uint64_t step) {
  memory_.ranks[rank].step.store(step, std::memory_order_seq_cst);
  if (waiter_.policy().oversubscribed()) {
    std::atomic<uint32_t>& count = words().arrived(step);
    const bool is_last = count.fetch_add(1, std::memory_order_seq_cst) + 1 == arrivals_by(step);
    if (is_last && words().any_sleeper()) WakeWords::wake(count);
    return;
  }
  words().wake_sleepers();
}

bool OperationBoard::all_arrived(uint64_t step) const {
  if (waiter_.policy().oversubscribed()) {
    const uint32_t now = words().arrived(step).load(std::memory_order_seq_cst);
    return static_cast<int32_t>(now - arrivals_by(step)) >= 0;
  }
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!has_arrived(rank, step)) return false;
  }
  return true;
}

Status OperationBoard::await_step(uint64_t step, WaitContext& wait_context) {
  if (all_arrived(step)) return {};
  return waiter_.await(
      waiter_.policy().oversubscribed() ? words().arrived(step) : words().changes(),
      [&] { return all_arrived(step); }, [&](uint32_t rank) { return !has_arrived(rank, step); },
      wait_context);
}

}  // namespace keel
