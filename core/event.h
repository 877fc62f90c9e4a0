// SPDX-License-Identifier: Apache-2.0
// Points in streams that the host and other streams can wait for.
#ifndef KEEL_CORE_EVENT_H_
#define KEEL_CORE_EVENT_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

#include "core/deadline.h"
#include "core/epoch.h"
#include "core/mutex.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;
class RecordPool;
class Stream;

// Streams that may be able to go on, found while a lock was held; whoever found them
// calls advance_all() once it holds none. A list, since those who wait for one event go on
// it, by splicing, also where there is no memory left.
using WakeList = std::list<Ref<Stream>>;

// One record of an event: a point in one stream. Several may be alive for one
// keel_event, since waits made before keep the earlier point; that also spares
// plugins re-recording while an old wait is still queued.
//
//   held -> submitted -> done
//
// held: the stream has not reached the record, a gate or a foreign event is before
// it; submitted: it is in the device's queue; done: over, with a status that covers
// all the streams that this one waited for. Thread-safe. Belongs to one stream for
// good, whose pool gives it out again and again; it is freed as a retired object, so that
// within an EpochSection a record that may have moved on can be looked at.
class EventRecord final : public RefCounted, public Retired {
 public:
  enum class State { kHeld, kSubmitted, kDone };

  // For RecordPool.
  EventRecord(Stream& stream, uint32_t flags);
  ~EventRecord() override;

  Device& device() const { return device_; }
  keel_plugin_event* native() const { return native_; }
  bool timing() const { return (flags_ & KEEL_EVENT_TIMING) != 0; }
  State state() const {
    return static_cast<State>(std::min<uint64_t>(life() & kStateMask, kEndedBadly));
  }

  // KEEL_OK, "not ready", or the failure of what lies before it. Never blocks.
  Status query(WakeList& wake);
  // The same on behalf of the user, whose thread knows what it answers.
  Status query_by_host(WakeList& wake);
  // Blocks until done or until |deadline|, then KEEL_TIMED_OUT.
  Status wait(const Deadline& deadline);
  // The way of most queries, for whoever has a reference: done, if the plugin says so, or
  // |*out_code| "not ready". False where that is not all there is to it: query() tells.
  bool query_at_once(keel_status* out_code);
  // |stream| is woken at the next change of state; false when it is no longer |seen|.
  bool add_waiter(Ref<Stream> stream, State seen);

  // For the stream that records it, at most once each and in this order. |inherited|:
  // the failure the stream was in; the record is done with it once the work before it
  // is over. |order| counts what was recorded on the native stream. A record that cannot
  // be submitted goes from held to done.
  void set_position(uint64_t position) { position_ = position; }
  // Its next life, from held to submitted before anybody else sees it.
  void begin_submitted(uint64_t position, uint64_t order) {
    position_ = position;
    order_ = order;
    begin_life(kSubmittedNow);
  }
  void mark_submitted_unseen(uint64_t order) {
    order_ = order;
    set_state(kSubmittedNow);
  }
  void mark_submitted(uint64_t order, const Status& inherited, WakeList& wake);
  void mark_done(const Status& status, WakeList& wake);
  // For whoever gave up the last reference: whether all is as it was made, so that it can go
  // back to its pool as it is; and the way back otherwise.
  bool is_plain() const { return is_plain_; }
  [[gnu::cold]] void dispose_dropped() { dispose(); }
  // What observers call it; 0 if none watched when it was made.
  void set_serial(uint64_t serial) {
    serial_ = serial;
    is_plain_ = false;
  }
  uint64_t serial() const { return serial_; }

  // The failure that a submitted record will be done with, as far as it is known.
  const Status& inherited() const { return inherited_; }
  bool is_on(const Stream& stream) const { return stream_.get() == &stream; }
  // Where it was recorded: |position| things were enqueued on |stream| before.
  const Stream& stream() const { return *stream_; }
  uint64_t position() const { return position_; }
  // Of two submitted records of one stream the one with the lower number came first.
  uint64_t order() const { return order_; }

  // Which of its lives the record is in, and in the lowest two bits its state there.
  // Within an EpochSection, also without a reference.
  uint64_t life() const { return life_.load(std::memory_order_acquire); }
  static bool ended_well(uint64_t life) { return (life & kStateMask) == kEndedWell; }

 private:
  friend class RecordPool;

  // The states of a life; both ends are State::kDone.
  static constexpr uint64_t kStateMask = 3;
  static constexpr uint64_t kHeldYet = 0;
  static constexpr uint64_t kSubmittedNow = 1;
  static constexpr uint64_t kEndedBadly = 2;
  static constexpr uint64_t kEndedWell = 3;

  void dispose() override;
  void clean_up();
  // The plugin says that it is over, well or not.
  Status answered(keel_status native_code, WakeList& wake);
  [[gnu::cold]] void answered_badly(keel_status native_code);
  // Turns the native answer into done, with the streams this one depends on.
  Status settle(keel_status native_code, WakeList& wake);

  // Makes a record from the pool new again.
  void begin_life(uint64_t state) {
    life_.store((life_.load(std::memory_order_relaxed) | kStateMask) + 1 + state,
                std::memory_order_release);
    revive();
  }
  void set_state(uint64_t state) {
    life_.store((life_.load(std::memory_order_relaxed) & ~kStateMask) | state,
                std::memory_order_release);
  }

  Device& device_;
  const Ref<Stream> stream_;  // keeps the native stream alive while its event may be used
  keel_plugin_event* native_ = nullptr;
  const uint32_t flags_;
  EventRecord* next_ = nullptr;  // in the pool
  uint64_t position_ = 0;
  uint64_t order_ = 0;
  uint64_t serial_ = 0;

  std::atomic<uint64_t> life_{0};
  bool is_plain_ = true;  // none of what dispose() would have to clean up was ever set
  Mutex mutex_;           // guards what follows and changes of state
  std::condition_variable_any changed_;
  Status inherited_;
  Status status_;
  WakeList waiters_;
};

// What a keel_event handle names. Thread-safe.
class Event final : public RefCounted {
 public:
  explicit Event(uint32_t flags) : flags_(flags) {}
  ~Event() override { set_current(nullptr); }

  uint32_t flags() const { return flags_; }
  // The last record; empty when it was never recorded.
  Ref<EventRecord> current() const;
  void set_current(Ref<EventRecord> record) {
    // The former record goes here, maybe back to its pool.
    Ref<EventRecord>::adopt(exchange(record.detach()));
  }
  // With the reference to |record|; returns the former one with its reference, or NULL.
  EventRecord* exchange(EventRecord* record) {
    return current_.exchange(record, std::memory_order_acq_rel);
  }
  // The way of most queries: |*out_code| is set to "not ready" where it is that. A record that
  // has been seen to be done, without a failure, takes no reference and asks no plugin. False
  // where there is more to it. In an EpochSection.
  bool query_at_once(keel_status* out_code) const;

 private:
  const uint32_t flags_;
  std::atomic<EventRecord*> current_{nullptr};  // with a reference
};

}  // namespace keel

#endif  // KEEL_CORE_EVENT_H_
