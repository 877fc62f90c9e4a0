// SPDX-License-Identifier: Apache-2.0
#include "core/stream.h"

#include <algorithm>
#include <new>
#include <thread>

#include "core/drain.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/runtime.h"

namespace keel {

void advance_all(WakeList& wake) {
  for (const Ref<Stream>& stream : wake) stream->advance(wake);  // the list may grow meanwhile
  wake.clear();
}

Stream::Stream(Device& device, int32_t priority, keel_plugin_stream* native, bool internal,
               bool wrapped)
    : device_(device),
      priority_(priority),
      internal_(internal),
      wrapped_(wrapped),
      number_(observers::next_serial()),
      timeline_(make_ref<Timeline>(*this, number_)),
      native_(native) {}

Status Stream::create(Device& device, int32_t priority, Ref<Stream>* out_stream, bool internal) {
  KEEL_RETURN_IF_ERROR(device.open());
  KEEL_RETURN_IF_ERROR(device.check_alive());
  keel_plugin_stream* native = nullptr;
  KEEL_RETURN_IF_ERROR(device.check(
      device.stream_table()->create(device.native(), priority, &native), "stream.create"));
  *out_stream = adopt(device, priority, native, internal, /*wrapped=*/false);
  return {};
}

Ref<Stream> Stream::adopt(Device& device, int32_t priority, keel_plugin_stream* native,
                          bool internal, bool wrapped) {
  Ref<Stream> stream;
  try {
    stream = Ref<Stream>::adopt(new Stream(device, priority, native, internal, wrapped));
  } catch (const std::bad_alloc&) {
    device.stream_table()->destroy(native);
    throw;
  }
  Runtime::get().add_stream(stream.get());
  return stream;
}

Stream::~Stream() {
  Runtime::get().remove_stream(this);
  timeline_->finish();
  device_.stream_table()->destroy(native_);
  for (keel_plugin_stream* native : retired_) device_.stream_table()->destroy(native);
}

Status Stream::status() const {
  if (has_failed()) {
    std::lock_guard lock(state_mutex_);
    if (!failure_.ok()) return failure_;
  }
  return device_.check_alive();
}

namespace {

// Returns |failure| with a text object of its own, so that stream_refusal() can tell the call that
// fails a stream, and returns |failure|, from later ones. Without memory, one and the same.
Status detach(const Status& failure) try {
  return {failure.code(), failure.text()};
} catch (const std::bad_alloc&) {
  return failure;
}

}  // namespace

void Stream::fail(const Status& status, uint64_t position) {
  std::lock_guard lock(state_mutex_);
  if (!failure_.ok()) return;  // the first failure is the cause
  if (position < recovered_at_) return;
  failure_ = detach(status);
  slow_path_flags_.fetch_or(kHasFailed, std::memory_order_release);
}

Status Stream::confirm_edges(uint64_t position, WakeList& wake) {
  uint64_t broken_at = 0;
  Status status = edges_.query(position, wake, &broken_at);
  if (broken_at != 0) {
    fail(status, broken_at);
    edges_.mark_broken(broken_at, status);
    wake.push_back(Ref<Stream>(this));
  }
  return status;
}

// ---- observers -----------------------------------------------------------------

void Stream::tell_enqueued(const Step& step) {
  observers::tell([&](Observer& observer) { observer.enqueued(*this, step); });
}

void Stream::tell_passed(const Step& step, const Status& status) {
  observers::tell([&](Observer& observer) { observer.passed(*this, step, status); });
}

Status Stream::submit_observed(const char* name, const AccessList& accesses, const HeldWork& work,
                               const std::function<HeldWork()>& hold) {
  const ObservedWork observed{name, observers::next_serial(), accesses};
  const Step step = observed.step();
  if (!held_.empty()) {
    push_held({Step::Kind::kWork,
               position_,
               hold(),
               {},
               {},
               std::make_unique<const ObservedWork>(observed)});
    tell_enqueued(step);
    return {};
  }
  tell_enqueued(step);
  observers::tell([&](Observer& observer) { observer.starting(*this, step); });
  Status submitted = work(native_);
  tell_passed(step, submitted);
  return submitted;
}

Status Stream::mark_locked(uint32_t flags, Ref<EventRecord>* out_record) {
  if (drained_) return status();
  WakeList wake;  // no stream waits for a new record
  KEEL_RETURN_IF_ERROR(records_.take(*this, flags, out_record));
  (*out_record)->set_position(0);
  const Status submitted = submit_record(*out_record, {}, wake);
  if (!submitted.ok()) *out_record = nullptr;
  return submitted;
}

Status Stream::mark(uint32_t flags, Ref<EventRecord>* out_record) {
  std::lock_guard lock(mutex_);
  return mark_locked(flags, out_record);
}

// ---- enqueueing --------------------------------------------------------------

Status Stream::submit_record(const Ref<EventRecord>& record, const Status& inherited,
                             WakeList& wake) {
  KEEL_RETURN_IF_ERROR(record_native(*record));
  record->mark_submitted(next_order(), inherited, wake);
  return {};
}

Status Stream::place_record(const Ref<EventRecord>& record, WakeList& wake) {
  const Status known = status();
  if (drained_) {
    record->mark_done(known, wake);
    return {};
  }
  // Also on a failed stream: work submitted before still uses its memory.
  const Status recorded = device_.is_lost() ? known : submit_record(record, known, wake);
  if (recorded.ok() || known.ok() || may_still_run(recorded)) return recorded;
  record->mark_done(known, wake);
  return {};
}

Status Stream::record_locked(uint32_t flags, Ref<EventRecord>* out_record, WakeList& wake) {
  Ref<EventRecord> record;
  KEEL_RETURN_IF_ERROR(records_.take(*this, flags, &record));
  record->set_position(position_);
  if (observers::active()) [[unlikely]] {
    record->set_serial(observers::next_serial());
    tell_enqueued({Step::Kind::kRecord, record->serial(), "", {}});
  }
  if (held_.empty() || device_.is_lost()) {
    Status placed;
    if (has_failed() || device_.is_lost()) [[unlikely]] {
      placed = place_record(record, wake);
    } else {
      placed = record_native(*record);
      if (placed.ok()) record->mark_submitted_unseen(next_order());
    }
    tell_passed({Step::Kind::kRecord, record->serial(), "", {}}, placed);
    KEEL_RETURN_IF_ERROR(placed);
  } else {
    push_held({Step::Kind::kRecord, position_, {}, record, {}, {}});
  }
  *out_record = std::move(record);
  return {};
}

Status Stream::record_slowly(uint32_t flags, Ref<EventRecord>* out_record) {
  WakeList wake;
  return record_locked(flags, out_record, wake);  // no stream waits for a new record yet
}

Status Stream::fence(Ref<EventRecord>* out_record) {
  WakeList wake;
  std::lock_guard lock(mutex_);
  return fence_locked(out_record, wake);
}

Status Stream::fence_locked(Ref<EventRecord>* out_record, WakeList& wake) {
  // A closed stream must not keep a record, which would keep the stream alive.
  if (closed_) return record_locked(0, out_record, wake);
  if (!fence_ || fence_position_ != position_ || is_shared()) {
    KEEL_RETURN_IF_ERROR(record_locked(0, &fence_, wake));
    fence_position_ = position_;
  }
  *out_record = fence_;
  return {};
}

Status Stream::last_record(Ref<EventRecord>* out_record) {
  WakeList wake;
  std::lock_guard lock(mutex_);
  if (fence_ && held_.empty() && fence_->order() != records_submitted_) fence_ = nullptr;
  return fence_locked(out_record, wake);
}

Status Stream::submit_wait(const Ref<EventRecord>& record, uint64_t position, WakeList& wake) {
  // Nothing may throw once the wait is in the queue: the record must not be reused.
  edges_.reserve();
  KEEL_RETURN_IF_ERROR(
      device_.check(device_.stream_table()->stream_wait_event(native_, record->native()),
                    "stream.stream_wait_event"));
  timeline_->waits_for(*record->stream().timeline(), record->position(), position);
  edges_.add(position, record);
  if (++edges_since_marker_ < kEdgesPerMarker) return {};
  // The wait is in the queue; if a marker cannot be placed now, the next wait places one.
  const Status marked = place_marker(position, wake);
  if (!marked.ok()) log(KEEL_LOG_DEBUG, "{}", marked.text());
  return {};
}

Status Stream::place_marker(uint64_t position, WakeList& wake) {
  while (!markers_.empty()) {
    const auto& [passed, marker] = markers_.front();
    if (device_.stream_table()->event_query(marker->native()) == KEEL_NOT_READY) break;
    const Status status = confirm(passed, wake);
    if (status.code() == KEEL_NOT_READY) break;
    markers_.pop_front();
  }
  Ref<EventRecord> marker;
  KEEL_RETURN_IF_ERROR(records_.take(*this, 0, &marker));
  marker->set_position(position);
  KEEL_RETURN_IF_ERROR(submit_record(marker, {}, wake));
  markers_.emplace_back(position, std::move(marker));
  edges_since_marker_ = 0;
  return {};
}

Status Stream::wait(const Ref<EventRecord>& record) {
  if (record->is_on(*this)) return {};
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    if (has_failed() || !device_.check_alive().ok()) return {};  // later calls return it
    timeline_->advance(++position_);
    const Step step{Step::Kind::kWaitEvent, record->serial(), "", {}};
    tell_enqueued(step);
    if (held_.empty() && record->state() == EventRecord::State::kSubmitted &&
        record->inherited().ok() && &record->device() == &device_) {
      const Status submitted = submit_wait(record, position_, wake);
      tell_passed(step, submitted);
      KEEL_RETURN_IF_ERROR(submitted);
    } else {
      push_held({Step::Kind::kWaitEvent, position_, {}, record, {}, {}});
      if (held_.size() == 1) advance_locked(wake);
    }
  }
  advance_all(wake);
  return {};
}

Status Stream::wait(const Ref<Gate>& gate) {
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    if (has_failed() || !device_.check_alive().ok()) return {};
    wait_locked(gate, wake);
  }
  advance_all(wake);
  return {};
}

void Stream::wait_locked(const Ref<Gate>& gate, WakeList& wake) {
  // Nothing may throw once the gate is held: its owner would not know, and would never open the
  // gate.
  if (gate->is_kept()) pending_gates_.reserve();
  timeline_->advance(++position_);
  tell_enqueued({Step::Kind::kWaitGate, gate->serial(), gate->name(), {}});
  push_held({Step::Kind::kWaitGate, position_, {}, {}, gate, {}});
  if (gate->is_kept()) pending_gates_.add(gate);
  if (held_.size() == 1) advance_locked(wake);
}

Status Stream::hold(const Ref<Gate>& gate, Ref<EventRecord>* out_ready) {
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    if (has_failed() || device_.is_lost()) return status();
    if (observers::active()) {
      // An older fence would not show observers what the host has seen since.
      KEEL_RETURN_IF_ERROR(record_locked(0, out_ready, wake));
    } else if (!is_known_idle_locked()) {
      KEEL_RETURN_IF_ERROR(fence_locked(out_ready, wake));
    }
    wait_locked(gate, wake);
  }
  advance_all(wake);
  return {};
}

// ---- held work ----------------------------------------------------------------

bool Stream::pass_gate(const Ref<Gate>& gate) {
  Status opened_with;
  const bool parked = held_.is_parked_on(gate.get());
  if (!gate->passed(parked ? Ref<Stream>() : Ref<Stream>(this), &opened_with)) {
    held_.park_on(gate.get());
    return false;
  }
  if (!opened_with.ok()) fail(opened_with);
  return true;
}

bool Stream::pass_event(const Ref<EventRecord>& record, uint64_t position, WakeList& wake) {
  while (true) {
    const EventRecord::State seen = record->state();
    if (seen == EventRecord::State::kSubmitted && !record->inherited().ok()) {
      fail(record->inherited());  // known before the record is done
      return true;
    }
    if (seen == EventRecord::State::kSubmitted && &record->device() == &device_) {
      const Status status = submit_wait(record, position, wake);
      if (!status.ok()) fail(status);
      return true;
    }
    const Status status = record->query(wake);
    if (status.code() != KEEL_NOT_READY) {
      if (!status.ok()) fail(status);
      return true;
    }
    // The stream is woken at each change of state and parks again for the next.
    const void* parking = seen == EventRecord::State::kHeld
                              ? static_cast<const void*>(record.get())
                              : static_cast<const void*>(record->native());
    if (held_.is_parked_on(parking)) return false;
    if (!record->add_waiter(Ref<Stream>(this), seen)) continue;
    held_.park_on(parking);
    if (seen == EventRecord::State::kSubmitted) Runtime::get().progress().watch(record);
    return false;
  }
}

bool Stream::pass_head(WakeList& wake) {
  const HeldItem& head = held_.head();
  try {
    if (head.kind == Step::Kind::kWaitGate) return pass_gate(head.gate);
    return head.kind != Step::Kind::kWaitEvent || pass_event(head.record, head.position, wake);
  } catch (const std::bad_alloc&) {
    fail(Status::no_memory());  // no wake-up would come
    return true;
  }
}

void Stream::submit_held(const HeldItem& item, WakeList& wake) {
  if (item.kind == Step::Kind::kWork) {
    Status submitted = status();  // if failed, drops work: its data is undefined
    if (submitted.ok()) {
      if (item.observed) {
        observers::tell([&](Observer& observer) { observer.starting(*this, item.step()); });
      }
      submitted = item.work(native_);
      if (!submitted.ok()) fail(submitted);
    }
    if (item.observed) tell_passed(item.step(), submitted);
  } else if (item.kind != Step::Kind::kRecord) {
    if (observers::active()) tell_passed(item.step(), status());
  } else {
    const Status recorded = place_record(item.record, wake);
    if (observers::active()) tell_passed(item.step(), recorded);
    if (recorded.ok()) return;
    fail(recorded);
    item.record->mark_done(recorded, wake);
  }
}

void Stream::advance_locked(WakeList& wake) {
  while (!held_.empty()) {
    if (!has_failed() && !pass_head(wake)) return;
    const HeldItem item = held_.pop();
    try {
      submit_held(item, wake);
    } catch (const std::bad_alloc&) {
      // The enqueueing call has already returned: the stream, and waits for a record, report the
      // failure.
      fail(Status::no_memory());
      if (item.kind == Step::Kind::kRecord) item.record->mark_done(Status::no_memory(), wake);
    }
  }
  slow_path_flags_.fetch_and(~kHasHeld, std::memory_order_release);
}

void Stream::advance(WakeList& wake) {
  std::lock_guard lock(mutex_);
  advance_locked(wake);
}

// ---- waiting from the host ------------------------------------------------------

bool Stream::is_known_idle_locked() const {
  const keel_stream_table* table = device_.stream_table();
  return takes_fast_path() && !edges_.any() && KEEL_HAS(keel_stream_table, table, query) &&
         table->query(native_) == KEEL_OK;
}

Ref<Gate> Stream::head_gate() {
  std::lock_guard lock(mutex_);
  return held_.head_gate();
}

bool Stream::ends_behind(const Gate& gate) {
  std::lock_guard lock(mutex_);
  return held_.ends_with(gate) && !has_failed();
}

bool Stream::has_reached(uint64_t position, bool may_fence, WakeList& wake) {
  // The lock's holder is enqueueing, perhaps in a slow plugin call; the allocator looks for memory
  // elsewhere meanwhile.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return timeline_->is_done(position);
  // On a failed stream, the owners of dropped gates may still use the memory.
  if (has_failed() && !pending_gates_.all_open()) return timeline_->is_done(position);
  const auto is_over = [&](const Ref<EventRecord>& record) {
    return record->query(wake).code() != KEEL_NOT_READY;  // a failure is over too
  };
  const keel_stream_table* table = device_.stream_table();
  if (held_.empty() && !has_failed() && KEEL_HAS(keel_stream_table, table, query) &&
      table->query(native_) == KEEL_OK) {
    timeline_->mark_done(position_);
  }
  memory_fences_.collect(*timeline_, is_over);
  if (fence_ && !timeline_->is_done(fence_position_) && is_over(fence_)) {
    timeline_->mark_done(fence_position_);
  }
  if (may_fence && !closed_ && !memory_fences_.covers(position) && !timeline_->is_done(position) &&
      !memory_fences_.is_full()) {
    if (!fence_ || fence_position_ < position) {
      if (!record_locked(0, &fence_, wake).ok()) return false;
      fence_position_ = position_;
    }
    if (is_over(fence_)) {
      timeline_->mark_done(fence_position_);
    } else {
      memory_fences_.add(fence_position_, fence_);
    }
  }
  if (timeline_->is_done(position_)) timeline_->set_idle();
  return timeline_->is_done(position);
}

Status Stream::query() {
  WakeList wake;
  Ref<EventRecord> last;
  const keel_stream_table* table = device_.stream_table();
  if (KEEL_HAS(keel_stream_table, table, query) && !has_failed()) {
    // A new record would be queried before the device has seen it, and an idle stream would seem
    // busy.
    std::unique_lock lock(mutex_);
    if (held_.empty()) {
      const keel_status code = table->query(native_);
      if (code == KEEL_OK || code == KEEL_NOT_READY) {
        const Status status = code == KEEL_OK ? confirm(position_, wake) : Status::not_ready();
        if (status.code() != KEEL_NOT_READY) {
          observers::tell([&](Observer& observer) { observer.host_saw_idle(*this); });
        }
        lock.unlock();
        advance_all(wake);
        return status;
      }
    }
  }
  // No record is needed if the last one was seen to be over.
  if (is_known_quiet() && are_records_over()) return {};
  KEEL_RETURN_IF_ERROR(last_record(&last));
  Status status = last->query_by_host(wake);
  advance_all(wake);
  return status;
}

Status Stream::synchronize(const Deadline& deadline) {
  help(deadline);
  {
    std::lock_guard lock(mutex_);
    if (are_records_over() && is_known_idle_locked()) {
      timeline_->mark_done(position_);
      return {};
    }
  }
  // Records that were held, too, may come behind the last fence: a second turn waits for them.
  for (int turn = 0;; ++turn) {
    Ref<EventRecord> last;
    KEEL_RETURN_IF_ERROR(last_record(&last));
    const Status status = last->wait(deadline);
    if (!status.ok() || turn == 1 || are_records_over()) return status;
  }
}

}  // namespace keel
