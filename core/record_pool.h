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

  // With the stream's lock held. |flags|: KEEL_EVENT_*.
  Status take(Stream& stream, uint32_t flags, Ref<EventRecord>* out_record) {
    Kind& kind = kinds_[flags & KEEL_EVENT_TIMING];
    if (kind.idle == nullptr) [[unlikely]] {
      KEEL_RETURN_IF_ERROR(refill(stream, flags, kind));
    }
    EventRecord* record = kind.idle;
    kind.idle = record->next_;
    record->prepare();
    *out_record = Ref<EventRecord>::adopt(record);
    return {};
  }
  // For a record without references.
  void give_back(EventRecord* record) noexcept;
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
  struct Kind {
    EventRecord* idle = nullptr;
    EventRecord* first_pending = nullptr;  // in the order they came back
    EventRecord* last_pending = nullptr;
    uint32_t pending = 0;
    uint32_t look_at = kBatch;  // the number of pending ones to ask the plugin at
  };
  static constexpr uint32_t kBatch = 16;
  static EventRecord* closed();  // in |returned_|, a mark

  Status refill(Stream& stream, uint32_t flags, Kind& kind);
  void sort_returned();
  void reclaim_pending(Kind& kind);

  std::atomic<EventRecord*> returned_{nullptr};  // last first
  std::atomic<uint64_t> over_{0};
  Kind kinds_[2];  // without and with timing
};

}  // namespace keel

#endif  // KEEL_CORE_RECORD_POOL_H_
