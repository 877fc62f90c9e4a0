// Points in streams that the host and other streams can wait for.
#ifndef KEEL_CORE_EVENT_H_
#define KEEL_CORE_EVENT_H_

#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/deadline.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

// Streams that may be able to go on, found while a lock was held; whoever found them
// calls advance_all() once it holds none.
using WakeList = std::vector<Ref<Stream>>;

// One record of an event: a point in one stream. Several may be alive for one
// keel_event, since waits made before keep the earlier point; that also spares
// plugins re-recording while an old wait is still queued.
//
//   held -> submitted -> done
//
// held: the stream has not reached the record, a gate or a foreign event is before
// it; submitted: it is in the device's queue; done: over, with a status that covers
// all the streams that this one waited for. Thread-safe.
class EventRecord final : public RefCounted {
 public:
  enum class State { kHeld, kSubmitted, kDone };

  EventRecord(Device& device, keel_plugin_event* native, uint32_t flags);
  ~EventRecord() override;

  Device& device() const { return device_; }
  keel_plugin_event* native() const { return native_; }
  bool timing() const { return (flags_ & KEEL_EVENT_TIMING) != 0; }
  State state() const { return state_.load(std::memory_order_acquire); }

  // KEEL_OK, "not ready", or the failure of what lies before it. Never blocks.
  Status query(WakeList& wake);
  // The same on behalf of the user, whose thread knows what it answers.
  Status query_by_host(WakeList& wake);
  // Blocks until done or until |deadline|, then KEEL_TIMED_OUT.
  Status wait(const Deadline& deadline);
  // |stream| is woken at the next change of state; false when it is no longer |seen|.
  bool add_waiter(Ref<Stream> stream, State seen);

  // For the stream that records it, at most once each and in this order. |inherited|:
  // the failure the stream was in; the record is done with it once the work before it
  // is over. A record that cannot be submitted goes from held to done.
  void attach(Ref<Stream> stream, uint64_t position);
  // What observers call it; 0 if none watched when it was made.
  void set_serial(uint64_t serial) { serial_ = serial; }
  uint64_t serial() const { return serial_; }
  void mark_submitted(const Status& inherited, WakeList& wake);
  void mark_done(const Status& status, WakeList& wake);

  // The failure that a submitted record will be done with, as far as it is known.
  const Status& inherited() const { return inherited_; }
  bool is_on(const Stream& stream) const { return stream_.get() == &stream; }
  // Where it was recorded: |position| things were enqueued on |stream| before.
  const Stream& stream() const { return *stream_; }
  uint64_t position() const { return position_; }

  // For the pool. The native event may still lie in the queue of the stream; recorded
  // anew it would be signalled by the old record.
  bool is_pending() const;
  void detach();
  // Makes a record from the pool new again.
  void prepare();

 private:
  void dispose() override;
  // Turns the native answer into done, with the streams this one depends on.
  Status settle(keel_status native_code, WakeList& wake);

  Device& device_;
  keel_plugin_event* const native_;
  const uint32_t flags_;
  Ref<Stream> stream_;  // keeps the native stream alive while its event may be used
  uint64_t position_ = 0;
  uint64_t serial_ = 0;

  std::atomic<State> state_{State::kHeld};
  std::mutex mutex_;  // guards what follows and changes of state
  std::condition_variable changed_;
  Status inherited_;
  Status status_;
  WakeList waiters_;
};

// What a keel_event handle names.
class Event final : public RefCounted {
 public:
  explicit Event(uint32_t flags) : flags_(flags) {}

  uint32_t flags() const { return flags_; }
  // The last record; empty when it was never recorded.
  Ref<EventRecord> current();
  void set_current(Ref<EventRecord> record);

 private:
  const uint32_t flags_;
  std::mutex mutex_;
  Ref<EventRecord> current_;
};

}  // namespace keel

#endif  // KEEL_CORE_EVENT_H_
