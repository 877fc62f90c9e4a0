// SPDX-License-Identifier: Apache-2.0
// The event records of one stream, used over and over.
#ifndef KEEL_CORE_RECORD_POOL_H_
#define KEEL_CORE_RECORD_POOL_H_

#include <atomic>
#include <cstdint>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Stream;

// A record comes back with its last reference, on any thread and without a lock, and is
// given out again once its native event is over: recorded anew while it still lies in the
// queue, the event would be signalled by the old record. Since streams run in order, one
// event that is over vouches for all before it; the plugin is asked about one in 16.
//
// Each record keeps its stream alive, so the pool of a stream that is not closed does too.
class RecordPool {
 public:
  RecordPool() = default;
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  // Records of one kind that nobody holds, in the order they came back; those whose order is
  // known to be over can be given out.
  class Kind {
    friend class RecordPool;
    static constexpr uint32_t kBatch = 16;
    EventRecord* first = nullptr;
    EventRecord* last = nullptr;  // while there is a first
    uint32_t count = 0;
    uint32_t look_at = kBatch;  // the count to ask the plugin at
  };

  // With the stream's lock held. |flags|: KEEL_EVENT_*.
  Status take(Stream& stream, uint32_t flags, Ref<EventRecord>* out_record);
  // The same in steps, for a record that is submitted at once.
  Kind& kind(uint32_t flags) { return kinds_[flags & KEEL_EVENT_TIMING]; }
  // The one that would be given out; NULL if it would have to be looked for.
  EventRecord* peek(const Kind& kind) const {
    EventRecord* record = kind.first;
    if (record == nullptr || record->order_ > over_.load(std::memory_order_relaxed)) return nullptr;
    return record;
  }
  // The same after that: a look at those that came back and, now and then, a question to the
  // plugin. NULL where a record would have to be made.
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
  // For a record without references.
  void give_back(EventRecord* record) noexcept {
    EventRecord* first = returned_.load(std::memory_order_relaxed);
    do {
      if (first == closed()) [[unlikely]] {
        record->next_ = nullptr;
        return retire_all(record);
      }
      record->next_ = first;
      // From here on the record, and its stream with it, may be gone.
    } while (!returned_.compare_exchange_weak(first, record, std::memory_order_release,
                                              std::memory_order_relaxed));
  }
  // The native event of the record that was submitted as number |order| of the stream is
  // over. Any thread.
  void note_over(uint64_t order) {
    if (order > over_.load(std::memory_order_relaxed)) {
      over_.store(order, std::memory_order_relaxed);  // a lost race forgets, and does no harm
    }
  }

  // With the stream's lock held; the queue of the stream is drained, or given up. The
  // records that are here are retired by retire_all, without the lock; one that comes
  // back later is retired then.
  EventRecord* close();
  static void retire_all(EventRecord* records) noexcept;

 private:
  static EventRecord* closed() { return reinterpret_cast<EventRecord*>(alignof(EventRecord)); }

  [[gnu::cold]] Status refill(Stream& stream, uint32_t flags, EventRecord** out_record);
  void sort_returned();
  // Whether the first of them, of which there are kBatch, can be given out.
  bool ask(Kind& kind);

  std::atomic<EventRecord*> returned_{nullptr};  // last first; closed(): none is taken back
  std::atomic<uint64_t> over_{0};
  Kind kinds_[2];  // without and with timing
};

}  // namespace keel

#endif  // KEEL_CORE_RECORD_POOL_H_
