// SPDX-License-Identifier: Apache-2.0
// An in-order queue of one device, with the work held back behind gates and events of other
// devices.
#ifndef KEEL_CORE_STREAM_H_
#define KEEL_CORE_STREAM_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/device.h"
#include "core/edges.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/held_queue.h"
#include "core/helper_streams.h"
#include "core/memory_fences.h"
#include "core/mutex.h"
#include "core/observer.h"
#include "core/pending_gates.h"
#include "core/record_pool.h"
#include "core/ref_counted.h"
#include "core/slow_path_flags.h"
#include "core/status.h"
#include "core/timeline.h"
#include "core/trace/trace_marks.h"
#include "core/workspace.h"

namespace keel {

// While nothing is held, work goes straight to the plugin. Once something is held, all later work
// is held behind it with copied arguments, and is submitted in order by the thread that lets the
// head of the queue pass.
//
// Failures: once a failure is known, whether of this stream's work or inherited through an event,
// every later enqueue returns that failure and later records are marked failed, until recover().
//
// Locks: |mutex_| serialises submission and may be held across plugin calls; |state_mutex_| is a
// leaf. No thread holds the |mutex_| of two streams.
class Stream final : public RefCounted {
 public:
  // Internal streams carry helper copies and collectives; their failures reach the user through the
  // stream they work for.
  static Status create(Device& device, int32_t priority, Ref<Stream>* out_stream,
                       bool internal = false);
  // Wraps |native|, the vendor's handle; its owner keeps the handle until the stream is closed.
  static Status wrap(Device& device, void* native, Ref<Stream>* out_stream);
  ~Stream() override;

  Device& device() const { return device_; }
  bool is_internal() const { return internal_; }
  int32_t priority() const { return priority_; }
  // Returns the vendor's handle. From now on the stream is shared, as a wrapped stream is from the
  // start: others may enqueue on the handle without Keel's knowledge.
  Status unwrap(void** out_native);
  // Unique in the process, starting at 1.
  uint64_t number() const { return number_; }

  // Submits |work|, a callable Status(keel_plugin_stream*) that owns its arguments. On failure
  // nothing was enqueued and the stream is unchanged. For observers: |name|, a static string, and
  // |describe|(AccessList&), which lists the ranges read and written and is called only if an
  // observer is set.
  template <typename Describe, typename Work>
  Status submit(const char* name, const Describe& describe, const Work& work) {
    return submit(name, describe, work, [&] { return HeldWork(work); });
  }
  // The same if holding needs a deeper copy than running: |hold| makes the copy.
  template <typename Describe, typename Work, typename Hold>
  Status submit(const char* name, const Describe& describe, const Work& work, const Hold& hold) {
    std::lock_guard lock(mutex_);
    if (takes_fast_path()) [[likely]] {
      KEEL_RETURN_IF_ERROR(work(native_));
      timeline_->advance(++position_);
      return {};
    }
    return submit_slow_path(name, describe, work, hold);
  }

  // Fast path of most calls: runs |call|, a callable keel_status(keel_plugin_stream*), and returns
  // true; |*out_code| is set to the result of |call| unless that is KEEL_OK. If a slow-path flag or
  // an observer is set, returns false without any effect, and the caller continues with submit().
  template <typename Call>
  bool try_submit_fast_path(const Call& call, keel_status* out_code) {
    std::lock_guard lock(mutex_);
    if (!takes_fast_path()) [[unlikely]] {
      return false;
    }
    const keel_status code = call(native_);
    if (code != KEEL_OK) [[unlikely]] {
      *out_code = code;
      return true;
    }
    timeline_->advance(++position_);
    return true;
  }
  // Fast path for a record of |event|; the record becomes the event's current one. False also if no
  // record can be reused.
  bool try_record_fast_path(Event& event, keel_status* out_code) {
    EventRecord* former = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!takes_fast_path()) [[unlikely]] {
        return false;
      }
      RecordPool::Kind& kind = records_.kind(event.flags());
      EventRecord* record = records_.peek(kind);
      if (record == nullptr && (record = records_.find_over(kind)) == nullptr) [[unlikely]] {
        return false;
      }
      const keel_status code = device_.stream_table()->event_record(record->native(), native_);
      if (code != KEEL_OK) [[unlikely]] {
        *out_code = code;
        return true;
      }
      RecordPool::remove_first(kind);
      record->begin_submitted(position_, next_order());
      former = event.exchange(record);
      if (former == nullptr || !former->drop()) return true;
      if (former->is_on(*this) && former->is_clean()) [[likely]] {
        RecordPool::take_back(kind, former);
        return true;
      }
    }
    former->dispose_dropped();  // may release streams
    return true;
  }

  // Records a new event record at the stream's end. On a failed stream the record is done, with the
  // failure, once the work submitted before is over.
  Status record(uint32_t flags, Ref<EventRecord>* out_record) {
    std::lock_guard lock(mutex_);
    RecordPool::Kind& kind = records_.kind(flags);
    EventRecord* record = takes_fast_path() ? records_.peek(kind) : nullptr;
    if (record == nullptr) [[unlikely]] {
      return record_slowly(flags, out_record);
    }
    KEEL_RETURN_IF_ERROR(record_native(*record));
    RecordPool::remove_first(kind);
    record->begin_submitted(position_, next_order());
    *out_record = Ref<EventRecord>::adopt(record);
    return {};
  }
  // Like record(), but returns the last fence if nothing was enqueued since.
  Status fence(Ref<EventRecord>* out_record);
  // Later work runs after |record|, or behind |gate|. A record of the same stream adds no order.
  Status wait(const Ref<EventRecord>& record);
  Status wait(const Ref<Gate>& gate);

  // Returns the stream's failure, or the loss of the device.
  Status status() const;
  bool has_failed() const {
    return (slow_path_flags_.load(std::memory_order_acquire) & kHasFailed) != 0;
  }
  // Returns whether nothing is held and all work is done, by one question to the plugin; false if
  // the answer does not decide.
  bool is_known_idle() {
    std::lock_guard lock(mutex_);
    return is_known_idle_locked();
  }
  // Like is_known_idle(), but without a lock or a plugin call; false if undecided or if an observer
  // is set.
  bool is_known_quiet() const {
    return takes_fast_path() && !edges_.any() && timeline_->is_done(timeline_->enqueued());
  }
  // Whether all records submitted so far are known to be over. A record on an idle stream may take
  // the device a millisecond, and a synchronized stream has no event that is not done.
  bool are_records_over() const {
    return records_.is_over(records_submitted_.load(std::memory_order_relaxed));
  }
  // Later work runs behind |gate|. |*out_ready| is done once all earlier work is; empty if the
  // plugin reports at once that earlier work is over. Atomic: no thread enqueues in between.
  Status hold(const Ref<Gate>& gate, Ref<EventRecord>* out_ready);
  // Returns whether |gate|, closed, is the last item enqueued, and the stream has not failed.
  bool ends_behind(const Gate& gate);
  // Returns KEEL_OK, KEEL_NOT_READY or the failure.
  Status query();
  Status synchronize(const Deadline& deadline);
  // Runs the work of the gate at the head of the queue; see GateOwner::help().
  void help(const Deadline& deadline) {
    if ((slow_path_flags_.load(std::memory_order_acquire) & kHasHeld) == 0) return;
    if (const Ref<Gate> gate = head_gate()) gate->help(deadline);
  }
  // Returns the deadlines of the operations that the stream waits for, in sum.
  int64_t longest_ns() const { return pending_gates_.longest_ns(); }
  // Waits only for the contents of the native stream: at least for the records up to number
  // |*out_order|. With |for_good|, nothing enters the native stream any more.
  Status drain(const Deadline& deadline, bool for_good = false, uint64_t* out_order = nullptr);
  // For a helper stream of a failed and drained owner: submits held work, or cancels it if still
  // blocked, then drains. A helper stream waits for its owner alone, so the progress thread would
  // otherwise submit the held work at some later time.
  Status drain_helper(const Deadline& deadline);
  // Drains the stream, clears the failure, and replaces a native stream that is stuck in a failure.
  // Also waits for the owners of gates that the stream has dropped. If the deadline passes, the
  // stream stays failed.
  Status recover(const Deadline& deadline);
  // Cancels held work, refuses later work, waits for the rest and, like recover(), for the owners
  // of the stream's gates, then releases all records. For the stream's owner; the native stream is
  // destroyed with the last reference. If the deadline passes, the device keeps the stream and
  // closes it again at the device's end.
  Status close(const Deadline& deadline);
  void close();  // by the default deadline; logs a failure
  // True from the call of close() on, finished or not.
  bool is_closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  // At the device's end, if close() missed its deadline: releases the records and the entry in the
  // runtime's list, so that the stream does not outlive the device.
  void abandon();

  // Returns whether any stream in the process is, or has been, shared.
  static bool any_shared() { return any_shared_.load(std::memory_order_acquire); }
  // On a shared stream, advances the position past native work enqueued by others: memory freed
  // later waits for that work too.
  void note_native_work();

  // The stream's progress, for memory in use by the stream.
  const Ref<Timeline>& timeline() const { return timeline_; }
  // If true, the end of this stream does not prove the end of the work it waited for: a failure
  // drops the waits still held.
  bool is_held_or_failed() const {
    return (slow_path_flags_.load(std::memory_order_acquire) & (kHasHeld | kHasFailed)) != 0;
  }
  // For Timeline::poll.
  bool has_reached(uint64_t position, bool may_fence, WakeList& wake);

  // Returns a device buffer of at least |size| bytes for the work enqueued next, valid until the
  // stream closes.
  Status workspace(uint64_t size, void** out_pointer) {
    return workspace_.get(*this, size, out_pointer);
  }

  // Returns the helper stream on |device| for parts of this stream's work: one per device, since
  // the parts are in order anyway. Valid until the stream closes.
  Status helper_stream(Device& device, Ref<Stream>* out_leg) {
    KEEL_RETURN_IF_ERROR(status());
    return helper_streams_.take(device, out_leg);
  }
  RecordPool& records() { return records_; }
  // Link in the device's list of kept streams.
  Ref<Stream>& next_kept() { return next_kept_; }
  // Releases the unreferenced records, since each keeps its stream alive. For the end of a stream,
  // once its work is done or given up.
  void release_records();

  // ---- for the trace ----
  TraceMarks& marks() { return marks_; }
  // Records at the end of the native queue, independent of observers and failures. mark_locked()
  // expects the lock held, as in an Observer's calls.
  Status mark_locked(uint32_t flags, Ref<EventRecord>* out_record);
  Status mark(uint32_t flags, Ref<EventRecord>* out_record);

  // For EventRecord, Gate and the progress thread.
  void advance(WakeList& wake);
  // |position| belongs to the failed item: items from before a recovery fail no later work.
  void fail(const Status& status, uint64_t position = UINT64_MAX);
  // Like fail(), for callers without a lock: drops the held work at once.
  void fail_and_drop(const Status& status);
  // Returns whether all streams waited for, up to |position|, succeeded.
  Status confirm(uint64_t position, WakeList& wake) {
    return edges_.any() ? confirm_edges(position, wake) : Status();
  }
  // If false, confirm() asks no stream.
  bool has_edges() const { return edges_.any(); }

 private:
  Stream(Device& device, int32_t priority, keel_plugin_stream* native, bool internal,
         bool wrapped = false);
  // Takes ownership of |native|, also on an exception.
  static Ref<Stream> adopt(Device& device, int32_t priority, keel_plugin_stream* native,
                           bool internal, bool wrapped);
  void share() {
    any_shared_.store(true, std::memory_order_release);
    slow_path_flags_.fetch_or(kIsShared, std::memory_order_release);
  }
  bool is_shared() const {
    return (slow_path_flags_.load(std::memory_order_acquire) & kIsShared) != 0;
  }

  Status close_now(const Deadline& deadline);
  Status await_keepers(const Deadline& deadline);
  Status confirm_edges(uint64_t position, WakeList& wake);

  // Nothing is held or failed, no device is lost, no observer is set, and the handle is not shared.
  bool takes_fast_path() const {
    return slow_path_flags_.load(std::memory_order_acquire) == 0 &&
           slow_path_flags::g_process.load(std::memory_order_relaxed) == 0;
  }

  // With |mutex_| held:
  template <typename Describe, typename Work, typename Hold>
  [[gnu::noinline]] Status submit_slow_path(const char* name, const Describe& describe,
                                            const Work& work, const Hold& hold) {
    if (has_failed() || device_.is_lost()) return status();
    if (observers::active()) {
      AccessList accesses;
      describe(accesses);
      KEEL_RETURN_IF_ERROR(submit_observed(name, accesses, std::cref(work), std::cref(hold)));
    } else if (held_.empty()) {
      KEEL_RETURN_IF_ERROR(work(native_));
    } else {
      push_held({Step::Kind::kWork, position_, hold(), {}, {}, {}});
    }
    timeline_->advance(++position_);
    return {};
  }
  Status record_slowly(uint32_t flags, Ref<EventRecord>* out_record);
  Status fence_locked(Ref<EventRecord>* out_record, WakeList& wake);
  void wait_locked(const Ref<Gate>& gate, WakeList& wake);
  Status submit_observed(const char* name, const AccessList& accesses, const HeldWork& work,
                         const std::function<HeldWork()>& hold);
  void tell_enqueued(const Step& step);
  void tell_passed(const Step& step, const Status& status);
  void push_held(HeldItem item) {
    held_.push(std::move(item));
    slow_path_flags_.fetch_or(kHasHeld, std::memory_order_release);
  }
  // advance_locked() and pass_head() do not throw when memory runs out: the stream fails instead.
  void advance_locked(WakeList& wake);
  bool pass_head(WakeList& wake);
  void submit_held(const HeldItem& item, WakeList& wake);
  bool pass_event(const Ref<EventRecord>& record, uint64_t position, WakeList& wake);
  bool pass_gate(const Ref<Gate>& gate);
  // Returns the gate at the head of the held work; empty if the head is no gate. Takes |mutex_|.
  Ref<Gate> head_gate();
  // Order of the next record submitted. With the lock held.
  uint64_t next_order() {
    const uint64_t order = records_submitted_.load(std::memory_order_relaxed) + 1;
    records_submitted_.store(order, std::memory_order_relaxed);
    return order;
  }
  // Returns a record behind all others: the last fence, or a new one.
  Status last_record(Ref<EventRecord>* out_record);
  // is_known_idle() with the lock held.
  bool is_known_idle_locked() const;
  Status record_native(const EventRecord& record) {
    return device_.check(device_.stream_table()->event_record(record.native(), native_),
                         "stream.event_record");
  }
  Status submit_record(const Ref<EventRecord>& record, const Status& inherited, WakeList& wake);
  Status place_record(const Ref<EventRecord>& record, WakeList& wake);
  Status submit_wait(const Ref<EventRecord>& record, uint64_t position, WakeList& wake);
  Status record_locked(uint32_t flags, Ref<EventRecord>* out_record, WakeList& wake);
  Status place_marker(uint64_t position, WakeList& wake);

  // Slow-path flags: each flag keeps work from going straight to the plugin. A single load reads
  // all.
  static constexpr uint32_t kHasHeld = 1;    // written with |mutex_| held
  static constexpr uint32_t kHasFailed = 2;  // written with |state_mutex_| held
  // Never cleared: the native queue may contain work unknown to Keel.
  static constexpr uint32_t kIsShared = 4;

  static inline std::atomic<bool> any_shared_{false};

  Device& device_;
  std::atomic<uint32_t> slow_path_flags_{0};
  const int32_t priority_;
  const bool internal_;
  const bool wrapped_;
  const uint64_t number_;
  const Ref<Timeline> timeline_;

  Mutex mutex_;
  keel_plugin_stream* native_;
  std::vector<keel_plugin_stream*> retired_;  // failed native streams, replaced by recover()
  uint64_t position_ = 0;                     // items enqueued so far, records not counted
  HeldQueue held_;
  PendingGates pending_gates_;  // including dropped ones
  RecordPool records_;
  std::atomic<uint64_t> records_submitted_{0};  // written with |mutex_| held
  Ref<EventRecord> fence_;
  uint64_t fence_position_ = 0;
  MemoryFences memory_fences_;
  // A native event stays out of reuse until the stream has passed its wait for the event; a marker
  // every kEdgesPerMarker waits detects the passing.
  static constexpr uint32_t kEdgesPerMarker = 32;
  uint32_t edges_since_marker_ = 0;
  std::deque<std::pair<uint64_t, Ref<EventRecord>>> markers_;
  Workspace workspace_;
  HelperStreams helper_streams_;
  Ref<Stream> next_kept_;  // guarded by the device
  bool closed_ = false;
  bool drained_ = false;  // closed, and the native stream stays empty
  TraceMarks marks_;

  mutable std::mutex state_mutex_;
  Status failure_;
  uint64_t recovered_at_ = 0;  // position of the last recovery
  Edges edges_;
};

inline bool EventRecord::try_query_fast_path(keel_status* out_code) {
  const uint64_t life = this->life();
  if ((life & kStateMask) != kSubmittedNow || !inherited_.ok() || stream_->has_edges())
    return false;
  const keel_status code = device_.stream_table()->event_query(native_);
  if (code == KEEL_NOT_READY) {
    *out_code = code;
    return true;
  }
  if (code != KEEL_OK) [[unlikely]] {
    answered_badly(code);  // sets the failed state; query() has the text
    return false;
  }
  stream_->records().note_over(order_);
  std::lock_guard lock(mutex_);
  if (life_.load(std::memory_order_relaxed) != life || !waiters_.empty() || reports_changes_) {
    return false;
  }
  set_state(kEndedWell);
  return true;
}

inline bool Event::try_query_fast_path(keel_status* out_code) const {
  EventRecord* record = current_.load(std::memory_order_acquire);
  if (record == nullptr) return true;
  const uint64_t life = record->life();
  if (EventRecord::ended_well(life)) {
    // The record must still be current, and in the life that ended well.
    return current_.load(std::memory_order_acquire) == record && record->life() == life;
  }
  // As in Event::current().
  if (!record->try_retain()) return false;
  const Ref<EventRecord> kept = Ref<EventRecord>::adopt(record);
  return current_.load(std::memory_order_acquire) == record &&
         record->try_query_fast_path(out_code);
}

// Advances every stream in |wake|, and the streams woken in turn, as far as possible. The caller
// holds no lock.
void advance_all(WakeList& wake);

}  // namespace keel

#endif  // KEEL_CORE_STREAM_H_
