// An in-order queue of one device, with what is held back behind gates and foreign
// events.
#ifndef KEEL_CORE_STREAM_H_
#define KEEL_CORE_STREAM_H_

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/device.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

// Work goes straight to the plugin while nothing is held; once something is, all
// that follows is held behind it, arguments copied, and submitted in order by
// whichever thread makes the head of the queue pass.
//
// Failures: a failure known on this stream, its own or one that came in along an
// event edge, is returned by everything enqueued later, and marks later records as
// failed, until recover().
//
// Locks: |mutex_| serialises submission and may be held across plugin calls;
// |state_mutex_| is a leaf. No thread holds the |mutex_| of two streams.
class Stream final : public RefCounted {
 public:
  static Status create(Device& device, int32_t priority, Ref<Stream>* out_stream);
  ~Stream() override;

  Device& device() const { return device_; }

  // Submits |work|, a callable Status(keel_plugin_stream*) that owns its arguments.
  // A failure means it was not enqueued, and the stream is as before.
  template <typename Work>
  Status submit(Work&& work) {
    return submit(work, [&] { return HeldWork(std::forward<Work>(work)); });
  }
  // The same where holding needs a deeper copy than running: |hold| makes it.
  template <typename Work, typename Hold>
  Status submit(const Work& work, const Hold& hold) {
    std::lock_guard lock(mutex_);
    KEEL_RETURN_IF_ERROR(status());
    if (held_.empty()) {
      KEEL_RETURN_IF_ERROR(work(native_));
    } else {
      held_.push_back({Held::Kind::kWork, hold(), {}, {}});
    }
    ++position_;
    return {};
  }

  // Records a new event record at the stream's end. On a failed stream the record is
  // done at once, with the failure.
  Status record(uint32_t flags, Ref<EventRecord>* out_record);
  // Like record, but returns the last one if nothing was enqueued since.
  Status fence(Ref<EventRecord>* out_record);
  // What follows runs after |record|, or behind |gate|.
  Status wait(const Ref<EventRecord>& record);
  Status wait(const Ref<Gate>& gate);

  // The failure this stream is in, or its device's loss.
  Status status() const;
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  // Nothing held and all work done.
  bool is_idle();
  // KEEL_OK, "not ready" or the failure.
  Status query();
  Status synchronize(const Deadline& deadline);
  // Drains, forgets the failure, and replaces a native stream that is stuck in one.
  Status recover(const Deadline& deadline);
  // Cancels what is held, waits for the rest, and lets go of all records. For the
  // owner; the native stream goes with the last reference.
  Status close(const Deadline& deadline);
  void close();  // by the default deadline; a failure is logged

  // A device buffer of at least |size| bytes for the work enqueued next: in-order
  // execution lets all work of the stream share one.
  Status workspace(uint64_t size, void** out_pointer);

  // For EventRecord, Gate and the progress thread.
  void advance(WakeList& wake);
  void fail(const Status& status);
  // Whether the streams this one waited for, up to |position|, succeeded.
  Status confirm(uint64_t position, WakeList& wake);

 private:
  using HeldWork = std::function<Status(keel_plugin_stream*)>;
  struct Held {
    enum class Kind { kWork, kWaitEvent, kWaitGate, kRecord } kind;
    HeldWork work;
    Ref<EventRecord> record;
    Ref<Gate> gate;
  };
  // The stream waited, in the device's queue, for |record| at |position|.
  struct Edge {
    uint64_t position;
    Ref<EventRecord> record;
  };

  Stream(Device& device, int32_t priority, keel_plugin_stream* native)
      : device_(device), priority_(priority), native_(native) {}

  // Waits for what the native stream holds, and nothing else.
  Status drain(const Deadline& deadline);

  // With |mutex_| held:
  void advance_locked(WakeList& wake);
  bool pass_event(const Ref<EventRecord>& record, WakeList& wake);
  bool pass_gate(const Ref<Gate>& gate);
  Status submit_record(const Ref<EventRecord>& record, WakeList& wake);
  Status submit_wait(const Ref<EventRecord>& record, WakeList& wake);
  Status record_locked(uint32_t flags, Ref<EventRecord>* out_record, WakeList& wake);
  Status place_marker(WakeList& wake);

  Device& device_;
  const int32_t priority_;

  std::mutex mutex_;
  keel_plugin_stream* native_;
  std::vector<keel_plugin_stream*> retired_;  // failed native streams, replaced by recover
  uint64_t position_ = 0;                     // things enqueued so far, records not counted
  std::deque<Held> held_;
  const void* parked_on_ = nullptr;  // the event or gate that will wake this stream
  Ref<EventRecord> fence_;
  uint64_t fence_position_ = 0;
  // Native events waited for stay unrecycled until the stream has passed the wait;
  // every kEdgesPerMarker waits a marker is recorded to notice.
  static constexpr uint32_t kEdgesPerMarker = 32;
  uint32_t edges_since_marker_ = 0;
  std::deque<std::pair<uint64_t, Ref<EventRecord>>> markers_;
  void* workspace_ = nullptr;
  uint64_t workspace_size_ = 0;

  mutable std::mutex state_mutex_;
  std::atomic<bool> failed_{false};
  Status failure_;
  std::vector<Edge> edges_;
};

// Lets every stream in |wake|, and those they wake, go as far as they can. The
// caller holds no lock.
void advance_all(WakeList& wake);

}  // namespace keel

#endif  // KEEL_CORE_STREAM_H_
