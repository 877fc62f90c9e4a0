// SPDX-License-Identifier: Apache-2.0
// The reusable event records of one stream.
#ifndef KEEL_CORE_RECORD_POOL_H_
#define KEEL_CORE_RECORD_POOL_H_

#include <atomic>
#include <cstdint>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Stream;

// A record returns to the pool with its last reference, on any thread and without a lock. The pool
// hands out a record again once the native event is over: an earlier recording still in the queue
// would signal the new event. Streams run in order, so one event known to be over vouches for all
// before it; the plugin is asked about one in 16.
//
// Each record keeps its stream alive, and so does the pool of an open stream.
class RecordPool {
 public:
  RecordPool() = default;
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  // Unreferenced records of one kind, in the order of return. A record can be handed out once its
  // order is known to be over.
  class Kind {
    friend class RecordPool;
    static constexpr uint32_t kBatch = 16;
    EventRecord* first = nullptr;
    EventRecord* last = nullptr;  // valid if |first| is not NULL
    uint32_t count = 0;
    uint32_t look_at = kBatch;  // the count at which to ask the plugin
  };

  // With the stream's lock held. |flags|: KEEL_EVENT_*.
  Status take(Stream& stream, uint32_t flags, Ref<EventRecord>* out_record);
  // take() in steps, for a record submitted at once.
  Kind& kind(uint32_t flags) { return kinds_[flags & KEEL_EVENT_TIMING]; }
  // Returns the record to hand out next; NULL if finding one takes a search.
  EventRecord* peek(const Kind& kind) const {
    EventRecord* record = kind.first;
    if (record == nullptr || record->order_ > over_.load(std::memory_order_relaxed)) return nullptr;
    return record;
  }
  // After peek() failed: sorts the returned records and, now and then, asks the plugin. NULL if a
  // record must be created.
  [[gnu::noinline]] EventRecord* find_over(Kind& kind);
  static void remove_first(Kind& kind) {
    kind.first = kind.first->next_;
    --kind.count;
  }
  // give_back() on an open stream, with its lock held.
  static void take_back(Kind& kind, EventRecord* record) {
    record->next_ = nullptr;
    (kind.first == nullptr ? kind.first : kind.last->next_) = record;
    kind.last = record;
    ++kind.count;
  }
  // Returns a record without references to the pool.
  void give_back(EventRecord* record) noexcept {
    EventRecord* first = returned_.load(std::memory_order_relaxed);
    do {
      if (first == closed()) [[unlikely]] {
        record->next_ = nullptr;
        return retire_all(record);
      }
      record->next_ = first;
      // After the exchange the record, and even its stream, may be gone.
    } while (!returned_.compare_exchange_weak(first, record, std::memory_order_release,
                                              std::memory_order_relaxed));
  }
  // Notes that the native event of the stream's submission number |order| is over. Any thread.
  void note_over(uint64_t order) {
    if (order > over_.load(std::memory_order_relaxed)) {
      over_.store(order, std::memory_order_relaxed);  // a lost race only forgets, which is harmless
    }
  }

  // Whether the native events up to submission number |order| are known to be over. Any thread.
  bool is_over(uint64_t order) const { return order <= over_.load(std::memory_order_relaxed); }

  // With the stream's lock held, once the stream's queue is drained or given up. The caller passes
  // the returned records to retire_all() without the lock; a record given back later is retired at
  // once.
  EventRecord* close();
  static void retire_all(EventRecord* records) noexcept;

 private:
  static EventRecord* closed() { return reinterpret_cast<EventRecord*>(alignof(EventRecord)); }

  [[gnu::cold]] Status refill(Stream& stream, uint32_t flags, EventRecord** out_record);
  void sort_returned();
  // Asks whether the first record can be handed out. There are at least kBatch.
  bool ask(Kind& kind);

  std::atomic<EventRecord*> returned_{nullptr};  // latest first; closed(): returns are retired
  std::atomic<uint64_t> over_{0};
  Kind kinds_[2];  // without and with timing
};

}  // namespace keel

#endif  // KEEL_CORE_RECORD_POOL_H_
