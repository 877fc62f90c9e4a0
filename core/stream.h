// SPDX-License-Identifier: Apache-2.0
// An in-order queue of one device, with what is held back behind gates and foreign
// events.
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
#include "core/hindrances.h"
#include "core/kept_gates.h"
#include "core/legs.h"
#include "core/mutex.h"
#include "core/observer.h"
#include "core/record_pool.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/timeline.h"
#include "core/workspace.h"

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
  // |internal|: of the runtime's own, for legs of copies and collectives. Its failures
  // reach the user through the stream that the leg belongs to.
  static Status create(Device& device, int32_t priority, Ref<Stream>* out_stream,
                       bool internal = false);
  // Around |native|, the vendor's own handle, whose owner keeps it until the stream is closed.
  static Status wrap(Device& device, void* native, Ref<Stream>* out_stream);
  ~Stream() override;

  Device& device() const { return device_; }
  bool is_internal() const { return internal_; }
  int32_t priority() const { return priority_; }
  // The vendor's handle inside. From now on the stream is shared, as a wrapped one is from the
  // start: others may enqueue on the handle, unseen.
  Status unwrap(void** out_native);
  // Unique in the process, from 1 on.
  uint64_t number() const { return number_; }

  // Submits |work|, a callable Status(keel_plugin_stream*) that owns its arguments.
  // A failure means it was not enqueued, and the stream is as before. For observers:
  // |name|, a static string, and |describe|(AccessList&), which lists what the work
  // reads and writes and is called only if somebody watches.
  template <typename Describe, typename Work>
  Status submit(const char* name, const Describe& describe, const Work& work) {
    return submit(name, describe, work, [&] { return HeldWork(work); });
  }
  // The same where holding needs a deeper copy than running: |hold| makes it.
  template <typename Describe, typename Work, typename Hold>
  Status submit(const char* name, const Describe& describe, const Work& work, const Hold& hold) {
    std::lock_guard lock(mutex_);
    if (is_plain()) [[likely]] {
      KEEL_RETURN_IF_ERROR(work(native_));
      timeline_->advance(++position_);
      return {};
    }
    return submit_slowly(name, describe, work, hold);
  }

  // The way of most calls: runs |call|, a callable keel_status(keel_plugin_stream*), which is
  // what the plugin says, and set where that is not KEEL_OK. False where anything stands in the way
  // or somebody watches; then nothing was done, and submit() knows what to do.
  template <typename Call>
  bool submit_at_once(const Call& call, keel_status* out_code) {
    std::lock_guard lock(mutex_);
    if (!is_plain()) [[unlikely]] {
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
  // The same for a record of |event|, which becomes its current one. False also where there
  // is no record to use again.
  bool record_at_once(Event& event, keel_status* out_code) {
    EventRecord* former = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!is_plain()) [[unlikely]] {
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
      record->begin_submitted(position_, ++records_submitted_);
      former = event.exchange(record);
      if (former == nullptr || !former->drop()) return true;
      if (former->is_on(*this) && former->is_plain()) [[likely]] {
        RecordPool::take_back(kind, former);
        return true;
      }
    }
    former->dispose_dropped();  // may let go of streams
    return true;
  }

  // Records a new event record at the stream's end. On a failed stream the record is
  // done with the failure once the work submitted before is over.
  Status record(uint32_t flags, Ref<EventRecord>* out_record) {
    std::lock_guard lock(mutex_);
    RecordPool::Kind& kind = records_.kind(flags);
    EventRecord* record = is_plain() ? records_.peek(kind) : nullptr;
    if (record == nullptr) [[unlikely]] {
      return record_slowly(flags, out_record);
    }
    KEEL_RETURN_IF_ERROR(record_native(*record));
    RecordPool::remove_first(kind);
    record->begin_submitted(position_, ++records_submitted_);
    *out_record = Ref<EventRecord>::adopt(record);
    return {};
  }
  // Like record, but returns the last one if nothing was enqueued since.
  Status fence(Ref<EventRecord>* out_record);
  // What follows runs after |record|, or behind |gate|. A record of this stream itself
  // orders nothing new.
  Status wait(const Ref<EventRecord>& record);
  Status wait(const Ref<Gate>& gate);

  // The failure this stream is in, or its device's loss.
  Status status() const;
  bool has_failed() const {
    return (hindrances_.load(std::memory_order_acquire) & kHasFailed) != 0;
  }
  // Nothing held and all work done.
  bool is_idle();
  // The same as far as that can be told by asking the plugin once: without records.
  bool is_known_idle() {
    std::lock_guard lock(mutex_);
    return is_known_idle_locked();
  }
  // The same as far as that is known without a lock or asking anybody; nor does anybody watch.
  bool is_known_quiet() const {
    return is_plain() && !edges_.any() && timeline_->is_done(timeline_->enqueued());
  }
  // What follows runs behind |gate|. |*out_ready| is done when what was enqueued before is;
  // empty where that is over already and the plugin can tell so at once. In one step, so that
  // nothing gets in between.
  Status hold(const Ref<Gate>& gate, Ref<EventRecord>* out_ready);
  // Whether |gate|, closed, is the last thing that was enqueued.
  bool ends_behind(const Gate& gate);
  // KEEL_OK, "not ready" or the failure.
  Status query();
  Status synchronize(const Deadline& deadline);
  // Waits for what the native stream holds, and nothing else: at least for the records up
  // to number |*out_order|. |for_good|: nothing enters it any more.
  Status drain(const Deadline& deadline, bool for_good = false, uint64_t* out_order = nullptr);
  // For the stream that this is a leg of, which has failed and is drained: the same, and what is
  // held goes on first. It waits for that stream alone, so its work would otherwise run later,
  // whenever the thread comes to it that lets streams go on.
  Status drain_leg(const Deadline& deadline);
  // Drains, forgets the failure, and replaces a native stream that is stuck in one. Waits for
  // the keepers of gates that the stream has dropped, too. At the deadline it is as before.
  Status recover(const Deadline& deadline);
  // Cancels what is held, refuses what is enqueued later, waits for the rest and, like
  // recover(), for the keepers of its gates, and lets go of all records. For the owner; the native
  // stream goes with the last reference. At the deadline the device keeps the stream, to close it
  // again at its own end.
  Status close(const Deadline& deadline);
  void close();  // by the default deadline; a failure is logged
  // Since close() was called, whether or not it is through.
  bool is_closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  // For the device's end, when close() missed its deadline: lets go of the records that
  // would keep the stream, and its place in the runtime's list, beyond its device.
  void abandon();

  // Whether any stream in the process is, or has been, shared.
  static bool any_shared() { return any_shared_.load(std::memory_order_acquire); }
  // On a shared stream, a position behind whatever others have enqueued on its handle: memory
  // that is freed then waits for that, too.
  void note_native_work();

  // Where this stream is, for memory that it uses.
  const Ref<Timeline>& timeline() const { return timeline_; }
  // Then the end of this stream is no proof that what it waited for is over: a failure
  // drops the waits that are still held.
  bool is_held_or_failed() const {
    return (hindrances_.load(std::memory_order_acquire) & (kHasHeld | kHasFailed)) != 0;
  }
  // For Timeline::poll.
  bool has_reached(uint64_t position, bool may_fence, WakeList& wake);

  // A device buffer of at least |size| bytes for the work enqueued next, valid until the
  // stream closes.
  Status workspace(uint64_t size, void** out_pointer) {
    return workspace_.get(*this, size, out_pointer);
  }

  // A stream of the runtime's own on |device|, for parts of this stream's work that run
  // there: one a device, since they are in order anyway. It stays until this one closes.
  Status leg(Device& device, Ref<Stream>* out_leg) {
    KEEL_RETURN_IF_ERROR(status());
    return legs_.take(device, out_leg);
  }
  RecordPool& records() { return records_; }
  // The next one among those that its device keeps.
  Ref<Stream>& next_kept() { return next_kept_; }
  // Lets go of the records that nobody holds: each keeps its stream. For the end of a
  // stream, whose work is done or given up.
  void release_records();

  // ---- for the trace ----
  // What it keeps between the calls for one operation; guarded by the stream's lock.
  struct Marks {
    Ref<EventRecord> begin;  // of the operation about to be submitted
    Ref<EventRecord> last;   // at the end of the one before
    uint64_t serial = 0;     // of the operation about to be submitted
    int64_t begin_ns = 0;
  };
  Marks& marks() { return marks_; }
  // Records at the end of the native queue, unknown to observers and to failures; with
  // the lock held, as it is in an Observer's calls, and without.
  Status mark_locked(uint32_t flags, Ref<EventRecord>* out_record);
  Status mark(uint32_t flags, Ref<EventRecord>* out_record);

  // For EventRecord, Gate and the progress thread.
  void advance(WakeList& wake);
  // |position|: of what failed; what was enqueued before a recovery fails no later work.
  void fail(const Status& status, uint64_t position = UINT64_MAX);
  // The same, for whoever holds no lock: what the stream holds is dropped at once.
  void fail_and_drop(const Status& status);
  // Whether the streams this one waited for, up to |position|, succeeded.
  Status confirm(uint64_t position, WakeList& wake) {
    return edges_.any() ? confirm_edges(position, wake) : Status();
  }
  // False: confirm() has nothing to ask.
  bool has_edges() const { return edges_.any(); }

 private:
  using HeldWork = std::function<Status(keel_plugin_stream*)>;
  // What observers are told when held work is reached.
  struct ObservedWork {
    const char* name;
    uint64_t serial;
    AccessList accesses;
    Step step() const { return {Step::Kind::kWork, serial, name, accesses.all()}; }
  };
  struct Held {
    Step::Kind kind;
    uint64_t position;
    HeldWork work;
    Ref<EventRecord> record;
    Ref<Gate> gate;
    std::unique_ptr<const ObservedWork> observed;  // empty while nobody watched
    Step step() const;
  };

  Stream(Device& device, int32_t priority, keel_plugin_stream* native, bool internal,
         bool wrapped = false);
  // Takes |native| over, also when it throws.
  static Ref<Stream> adopt(Device& device, int32_t priority, keel_plugin_stream* native,
                           bool internal, bool wrapped);
  void share() {
    any_shared_.store(true, std::memory_order_release);
    hindrances_.fetch_or(kIsShared, std::memory_order_release);
  }
  bool is_shared() const { return (hindrances_.load(std::memory_order_acquire) & kIsShared) != 0; }

  Status close_now(const Deadline& deadline);
  Status await_keepers(const Deadline& deadline);
  Status confirm_edges(uint64_t position, WakeList& wake);

  // Nothing is held, nothing failed, no device is lost, nobody watches, and nobody else enqueues.
  bool is_plain() const {
    return hindrances_.load(std::memory_order_acquire) == 0 &&
           hindrances::g_process.load(std::memory_order_relaxed) == 0;
  }

  // With |mutex_| held:
  template <typename Describe, typename Work, typename Hold>
  [[gnu::noinline]] Status submit_slowly(const char* name, const Describe& describe,
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
  void push_held(Held item) {
    held_.push_back(std::move(item));
    hindrances_.fetch_or(kHasHeld, std::memory_order_release);
  }
  // Neither throws for want of memory: then the stream fails.
  void advance_locked(WakeList& wake);
  bool pass_head(WakeList& wake);
  void submit_held(const Held& item, WakeList& wake);
  bool pass_event(const Ref<EventRecord>& record, uint64_t position, WakeList& wake);
  bool pass_gate(const Ref<Gate>& gate);
  // The gate that all else is held behind; empty if there is none.
  Ref<Gate> head_gate();
  // Whether all is done, as far as that can be told by asking the plugin once.
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

  // What keeps work from going straight to the plugin, in one word for one look.
  static constexpr uint32_t kHasHeld = 1;    // written with |mutex_|
  static constexpr uint32_t kHasFailed = 2;  // with |state_mutex_|
  // For good: what is in the native queue is no longer known from what was put there.
  static constexpr uint32_t kIsShared = 4;

  static inline std::atomic<bool> any_shared_{false};

  Device& device_;
  std::atomic<uint32_t> hindrances_{0};
  const int32_t priority_;
  const bool internal_;
  const bool wrapped_;
  const uint64_t number_;
  const Ref<Timeline> timeline_;

  Mutex mutex_;
  keel_plugin_stream* native_;
  std::vector<keel_plugin_stream*> retired_;  // failed native streams, replaced by recover
  uint64_t position_ = 0;                     // things enqueued so far, records not counted
  std::deque<Held> held_;
  KeptGates kept_gates_;             // also those that were dropped
  const void* parked_on_ = nullptr;  // the event or gate that will wake this stream
  RecordPool records_;
  uint64_t records_submitted_ = 0;
  Ref<EventRecord> fence_;
  uint64_t fence_position_ = 0;
  // Fences that freed memory waits for, with their positions. A bound on what a host far
  // ahead of its device has in flight; beyond it memory is looked at again later.
  static constexpr size_t kMemoryFences = 16;
  std::deque<std::pair<uint64_t, Ref<EventRecord>>> memory_fences_;
  // Native events waited for stay unrecycled until the stream has passed the wait;
  // every kEdgesPerMarker waits a marker is recorded to notice.
  static constexpr uint32_t kEdgesPerMarker = 32;
  uint32_t edges_since_marker_ = 0;
  std::deque<std::pair<uint64_t, Ref<EventRecord>>> markers_;
  Workspace workspace_;
  Legs legs_;
  Ref<Stream> next_kept_;  // guarded by the device
  bool closed_ = false;
  bool drained_ = false;  // closed, and the native stream is empty for good
  Marks marks_;

  mutable std::mutex state_mutex_;
  Status failure_;
  uint64_t recovered_at_ = 0;  // position of the last recovery
  Edges edges_;
};

inline bool EventRecord::query_at_once(keel_status* out_code) {
  const uint64_t life = this->life();
  if ((life & kStateMask) != kSubmittedNow || !inherited_.ok() || stream_->has_edges())
    return false;
  const keel_status code = device_.stream_table()->event_query(native_);
  if (code == KEEL_NOT_READY) {
    *out_code = code;
    return true;
  }
  if (code != KEEL_OK) [[unlikely]] {
    answered_badly(code);  // which it is from now on, and query() has the words
    return false;
  }
  stream_->records().note_over(order_);
  std::lock_guard lock(mutex_);
  if (life_.load(std::memory_order_relaxed) != life || !waiters_.empty()) return false;
  set_state(kEndedWell);
  return true;
}

inline bool Event::query_at_once(keel_status* out_code) const {
  EventRecord* record = current_.load(std::memory_order_acquire);
  if (record == nullptr) return true;
  const uint64_t life = record->life();
  if (EventRecord::ended_well(life)) {
    // That it is the last record now, in the life that ended well.
    return current_.load(std::memory_order_acquire) == record && record->life() == life;
  }
  // As in current().
  if (!record->try_retain()) return false;
  const Ref<EventRecord> kept = Ref<EventRecord>::adopt(record);
  return current_.load(std::memory_order_acquire) == record && record->query_at_once(out_code);
}

// Lets every stream in |wake|, and those they wake, go as far as they can. The
// caller holds no lock.
void advance_all(WakeList& wake);

}  // namespace keel

#endif  // KEEL_CORE_STREAM_H_
