// SPDX-License-Identifier: Apache-2.0
// Words of a control segment on which threads of its ranks sleep.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WAKE_WORDS_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WAKE_WORDS_H_

#include <atomic>
#include <cstdint>

#include "core/deadline.h"

namespace keel {

// Waits for all ranks work in one of the two modes of WaitPolicy, chosen when the segment is
// created. Dedicated: every rank has a flag, which its peers poll: one cache line transfer; a
// sleeper sleeps on changes(). Oversubscribed: ranks increment a shared count, and only the last
// rank wakes the sleepers: a wake-up costs 2 to 5 us, and flags would need one wake-up per pair.
//
// A view of shared memory, copied freely. Thread-safe.
class WakeWords {
 public:
  static constexpr uint32_t kDescriptors = 16;  // operations that a rank may be ahead
  static constexpr uint32_t kSteps = 4;         // a rank is at most two steps ahead

  struct alignas(64) Word {
    std::atomic<uint32_t> value;
  };
  struct Shared {
    alignas(64) std::atomic<uint32_t> sleepers;  // threads that sleep, or are about to
    std::atomic<uint32_t> room_sleepers;         // those that wait on |room|
    Word changes;
    Word room;
    Word published[kDescriptors];
    Word arrived[kSteps];
  };

  // |messages|: one word per rank.
  WakeWords(Shared& shared, Word* messages, uint32_t world)
      : shared_(&shared), messages_(messages), world_(world) {}

  // Number of changes of any rank's flag.
  std::atomic<uint32_t>& changes() const { return shared_->changes.value; }
  // Number of times that all ranks were done with an operation.
  std::atomic<uint32_t>& room() const { return shared_->room.value; }
  // Oversubscribed: number of ranks that have published |sequence|, and have arrived at |step|,
  // added up over the operations and steps that share the word. The 32-bit counts wrap; their
  // difference to a target does not.
  std::atomic<uint32_t>& published(uint64_t sequence) const {
    return shared_->published[sequence % kDescriptors].value;
  }
  std::atomic<uint32_t>& arrived(uint64_t step) const {
    return shared_->arrived[step % kSteps].value;
  }
  // Number of changes of |rank|'s point-to-point slots.
  std::atomic<uint32_t>& messages(uint32_t rank) const { return messages_[rank].value; }

  // A thread counts itself as a sleeper before it looks at its condition for the last time: the
  // thread that makes the condition true then sees the sleeper, or the sleeper sees the condition.
  void begin_sleep() const { shared_->sleepers.fetch_add(1, std::memory_order_seq_cst); }
  void end_sleep() const { shared_->sleepers.fetch_sub(1, std::memory_order_relaxed); }
  bool any_sleeper() const { return shared_->sleepers.load(std::memory_order_seq_cst) != 0; }
  // The same for threads that wait until all ranks are done with an operation, which is rare.
  void begin_room_sleep() const { shared_->room_sleepers.fetch_add(1, std::memory_order_seq_cst); }
  void end_room_sleep() const { shared_->room_sleepers.fetch_sub(1, std::memory_order_relaxed); }
  bool any_room_sleeper() const {
    return shared_->room_sleepers.load(std::memory_order_seq_cst) != 0;
  }

  // Sleeps while |word| equals |seen|, until wake(|word|), until |deadline| or for one slice
  // (WaitPolicy::kSliceNs) at most. futex(2), so the threads may be of any process.
  static void park(std::atomic<uint32_t>& word, uint32_t seen, const Deadline& deadline);
  static void wake(std::atomic<uint32_t>& word);
  // Wakes the threads that sleep on changes().
  void wake_sleepers() const {
    if (any_sleeper()) wake_changed(changes());
  }
  // Changes |word|, so that a thread about to sleep on its old value does not, and wakes.
  static void wake_changed(std::atomic<uint32_t>& word) {
    word.fetch_add(1, std::memory_order_seq_cst);
    wake(word);
  }
  // Wakes |rank| after a change of its point-to-point slots.
  void wake_messages(uint32_t rank) const {
    messages(rank).fetch_add(1, std::memory_order_seq_cst);
    if (any_sleeper()) wake(messages(rank));
  }
  // Wakes all threads, after a failure or an absence is recorded. Counts keep their values: a
  // thread about to sleep on a count looks for both first.
  void wake_all() const;

 private:
  Shared* shared_;
  Word* messages_;
  uint32_t world_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WAKE_WORDS_H_
