// SPDX-License-Identifier: Apache-2.0
// Events: points in streams that the host and other streams can wait for.
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

// Streams that may be able to proceed, collected while a lock is held; the collecting thread calls
// advance_all() once it holds no lock. A list, because waiters of an event are spliced into it
// without allocating, also when no memory is left.
using WakeList = std::list<Ref<Stream>>;

// One record of an event: a point in one stream. Several records of one keel_event may be alive,
// since earlier waits keep the earlier point; plugins therefore need not re-record an event while
// an old wait is still queued.
//
//   held -> submitted -> done
//
// held: the stream has not reached the record, because a gate or a foreign event precedes it.
// submitted: the record is in the device's queue. done: the work is over; the status also covers
// all streams that this stream waited for. Thread-safe. A record belongs to one stream for good,
// and the stream's pool hands it out repeatedly. Records are freed as retired objects, so within an
// EpochSection a thread may read a record that may have begun another life.
class EventRecord final : public RefCounted, public Retired {
 public:
  enum class State { kHeld, kSubmitted, kDone };

  // For RecordPool only.
  EventRecord(Stream& stream, uint32_t flags);
  ~EventRecord() override;

  Device& device() const { return device_; }
  keel_plugin_event* native() const { return native_; }
  bool timing() const { return (flags_ & KEEL_EVENT_TIMING) != 0; }
  State state() const {
    return static_cast<State>(std::min<uint64_t>(life() & kStateMask, kEndedBadly));
  }

  // Returns KEEL_OK, "not ready", or the failure of the work before the record. Never blocks.
  Status query(WakeList& wake);
  // query() on behalf of the user: observers learn that the host has seen the result.
  Status query_by_host(WakeList& wake);
  // Blocks until the record is done and returns its status; KEEL_TIMED_OUT at |deadline|.
  Status wait(const Deadline& deadline);
  // Fast path of query(); the caller holds a reference. Returns true if the plugin's answer
  // suffices: |*out_code| is set to "not ready", or left as it is if the record is done. False in
  // all other cases (held, already done, failed, waiters, event edges): the caller uses query().
  bool try_query_fast_path(keel_status* out_code);
  // Registers |stream| to be woken at the next change of state. False if the state is no longer
  // |seen|.
  bool add_waiter(Ref<Stream> stream, State seen);
  // From now on HostCallbacks::note_change() is called at each change of state.
  void report_changes();
  // Compares the ends of records that report changes: the lower number ended first; 0 if the record
  // was done before its report_changes(). For State::kDone.
  uint64_t end_number() const { return end_number_; }

  // The recording stream calls these functions, at most once each and in this order. |inherited|:
  // the failure of the stream; the record ends with |inherited| once the work before it is over.
  // |order| counts the records on the native stream. A record that cannot be submitted goes from
  // held to done.
  void set_position(uint64_t position) { position_ = position; }
  // Begins the next life directly as submitted; no other thread sees the record yet.
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
  // For the thread that dropped the last reference. True if the record has no state to clean up, so
  // that it can return to its pool unchanged; otherwise call dispose_dropped().
  bool is_clean() const { return is_clean_; }
  [[gnu::cold]] void dispose_dropped() { dispose(); }
  // Serial number for observers; 0 if no observer was active when the record was made.
  void set_serial(uint64_t serial) {
    serial_ = serial;
    is_clean_ = false;
  }
  uint64_t serial() const { return serial_; }

  // The failure with which a submitted record will end, as far as known.
  const Status& inherited() const { return inherited_; }
  bool is_on(const Stream& stream) const { return stream_.get() == &stream; }
  // Where the record is: after |position| operations enqueued on |stream|.
  const Stream& stream() const { return *stream_; }
  Stream& stream() { return *stream_; }
  uint64_t position() const { return position_; }
  // Submission number: between two submitted records of one stream, the lower number came first.
  uint64_t order() const { return order_; }

  // The number of the current life, with the state in the lowest two bits. Within an EpochSection,
  // callable without a reference.
  uint64_t life() const { return life_.load(std::memory_order_acquire); }
  static bool ended_well(uint64_t life) { return (life & kStateMask) == kEndedWell; }

 private:
  friend class RecordPool;

  // States of a life. kEndedBadly and kEndedWell are both State::kDone.
  static constexpr uint64_t kStateMask = 3;
  static constexpr uint64_t kHeldYet = 0;
  static constexpr uint64_t kSubmittedNow = 1;
  static constexpr uint64_t kEndedBadly = 2;
  static constexpr uint64_t kEndedWell = 3;

  void dispose() override;
  void clean_up();
  // Handles the plugin's answer that the native event is over, successful or not.
  Status answered(keel_status native_code, WakeList& wake);
  [[gnu::cold]] void answered_badly(keel_status native_code);
  // Combines the native answer with the streams that this stream depends on, and marks the record
  // done; "not ready" while a dependency is not settled.
  Status settle(keel_status native_code, WakeList& wake);

  // Begins a new life of a record from the pool.
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
  bool is_clean_ = true;  // no state for dispose() to clean up
  Mutex mutex_;           // guards the members below and state changes
  bool reports_changes_ = false;
  uint64_t end_number_ = 0;  // written before the state, and never again
  std::condition_variable_any changed_;
  Status inherited_;
  Status status_;
  WakeList waiters_;
};

// The object behind a keel_event handle. Thread-safe.
class Event final : public RefCounted {
 public:
  explicit Event(uint32_t flags) : flags_(flags) {}
  ~Event() override { set_current(nullptr); }

  uint32_t flags() const { return flags_; }
  // The last record; empty if the event was never recorded.
  Ref<EventRecord> current() const;
  void set_current(Ref<EventRecord> record) {
    // Releases the former record, which may return to its pool.
    Ref<EventRecord>::adopt(exchange(record.detach()));
  }
  // Takes over the reference to |record|; returns the former record with its reference, or NULL.
  EventRecord* exchange(EventRecord* record) {
    return current_.exchange(record, std::memory_order_acq_rel);
  }
  // Fast path of a query: sets |*out_code| to "not ready" if the record is not done. A record known
  // to have ended without a failure costs no reference and no plugin call. False if the caller must
  // take the slow path. Call in an EpochSection.
  bool try_query_fast_path(keel_status* out_code) const;

 private:
  const uint32_t flags_;
  std::atomic<EventRecord*> current_{nullptr};  // owns a reference
};

}  // namespace keel

#endif  // KEEL_CORE_EVENT_H_
