#include "core/stream.h"

#include <algorithm>
#include <thread>

#include "core/log.h"
#include "core/progress.h"
#include "core/runtime.h"

namespace keel {

void advance_all(WakeList& wake) {
  for (size_t i = 0; i < wake.size(); ++i) {
    const Ref<Stream> stream = wake[i];  // the list may grow, and move, meanwhile
    stream->advance(wake);
  }
  wake.clear();
}

Status Stream::create(Device& device, int32_t priority, Ref<Stream>* out_stream) {
  KEEL_RETURN_IF_ERROR(device.open());
  KEEL_RETURN_IF_ERROR(device.check_alive());
  keel_plugin_stream* native = nullptr;
  KEEL_RETURN_IF_ERROR(device.check(
      device.stream_table()->create(device.native(), priority, &native), "stream.create"));
  *out_stream = Ref<Stream>::adopt(new Stream(device, priority, native));
  Runtime::get().add_stream(out_stream->get());
  return {};
}

Stream::~Stream() {
  Runtime::get().remove_stream(this);
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

void Stream::fail(const Status& status) {
  std::lock_guard lock(state_mutex_);
  if (!failure_.ok()) return;  // the first one is the cause
  failure_ = status;
  failed_.store(true, std::memory_order_release);
}

Status Stream::confirm(uint64_t position, WakeList& wake) {
  std::vector<Edge> passed;
  {
    std::lock_guard lock(state_mutex_);
    for (const Edge& edge : edges_) {
      if (edge.position <= position) passed.push_back(edge);
    }
  }
  // Outside the lock: a query may go on to the edges of the other stream.
  for (const Edge& edge : passed) {
    const Status status = edge.record->query(wake);
    if (status.code() == KEEL_NOT_READY) return status;
    if (!status.ok()) {
      fail(status);
      wake.push_back(Ref<Stream>(this));
      return status;
    }
  }
  std::lock_guard lock(state_mutex_);
  std::erase_if(edges_, [&](const Edge& edge) { return edge.position <= position; });
  return {};
}

// ---- enqueueing --------------------------------------------------------------

Status Stream::submit_record(const Ref<EventRecord>& record, WakeList& wake) {
  KEEL_RETURN_IF_ERROR(device_.check(
      device_.stream_table()->event_record(record->native(), native_), "stream.event_record"));
  record->mark_submitted(wake);
  return {};
}

Status Stream::record_locked(uint32_t flags, Ref<EventRecord>* out_record, WakeList& wake) {
  Ref<EventRecord> record;
  KEEL_RETURN_IF_ERROR(device_.new_record(flags, &record));
  record->attach(Ref<Stream>(this), position_);
  const Status known = status();
  if (!known.ok()) {
    record->mark_done(known, wake);
  } else if (held_.empty()) {
    KEEL_RETURN_IF_ERROR(submit_record(record, wake));
  } else {
    held_.push_back({Held::Kind::kRecord, {}, record, {}});
  }
  *out_record = std::move(record);
  return {};
}

Status Stream::record(uint32_t flags, Ref<EventRecord>* out_record) {
  WakeList wake;
  std::lock_guard lock(mutex_);
  return record_locked(flags, out_record, wake);  // nobody waits for a new record yet
}

Status Stream::fence(Ref<EventRecord>* out_record) {
  WakeList wake;
  std::lock_guard lock(mutex_);
  if (!fence_ || fence_position_ != position_ || has_failed()) {
    KEEL_RETURN_IF_ERROR(record_locked(0, &fence_, wake));
    fence_position_ = position_;
  }
  *out_record = fence_;
  return {};
}

Status Stream::submit_wait(const Ref<EventRecord>& record, WakeList& wake) {
  KEEL_RETURN_IF_ERROR(
      device_.check(device_.stream_table()->stream_wait_event(native_, record->native()),
                    "stream.stream_wait_event"));
  {
    std::lock_guard lock(state_mutex_);
    edges_.push_back({position_, record});
  }
  return ++edges_since_marker_ < kEdgesPerMarker ? Status() : place_marker(wake);
}

Status Stream::place_marker(WakeList& wake) {
  edges_since_marker_ = 0;
  while (!markers_.empty()) {
    const auto& [position, marker] = markers_.front();
    if (device_.stream_table()->event_query(marker->native()) == KEEL_NOT_READY) break;
    const Status status = confirm(position, wake);
    if (status.code() == KEEL_NOT_READY) break;
    markers_.pop_front();
  }
  Ref<EventRecord> marker;
  KEEL_RETURN_IF_ERROR(device_.new_record(0, &marker));
  marker->attach(Ref<Stream>(this), position_);
  KEEL_RETURN_IF_ERROR(submit_record(marker, wake));
  markers_.emplace_back(position_, std::move(marker));
  return {};
}

Status Stream::wait(const Ref<EventRecord>& record) {
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    if (has_failed() || !device_.check_alive().ok()) return {};  // later waits return it
    ++position_;
    if (held_.empty() && record->state() == EventRecord::State::kSubmitted &&
        &record->device() == &device_) {
      KEEL_RETURN_IF_ERROR(submit_wait(record, wake));
    } else {
      held_.push_back({Held::Kind::kWaitEvent, {}, record, {}});
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
    ++position_;
    held_.push_back({Held::Kind::kWaitGate, {}, {}, gate});
    if (held_.size() == 1) advance_locked(wake);
  }
  advance_all(wake);
  return {};
}

// ---- held work ----------------------------------------------------------------

bool Stream::pass_gate(const Ref<Gate>& gate) {
  Status opened_with;
  const bool parked = parked_on_ == gate.get();
  if (!gate->passed(parked ? Ref<Stream>() : Ref<Stream>(this), &opened_with)) {
    parked_on_ = gate.get();
    return false;
  }
  if (!opened_with.ok()) fail(opened_with);
  return true;
}

bool Stream::pass_event(const Ref<EventRecord>& record, WakeList& wake) {
  while (true) {
    const EventRecord::State seen = record->state();
    if (seen == EventRecord::State::kSubmitted && &record->device() == &device_) {
      const Status status = submit_wait(record, wake);
      if (!status.ok()) fail(status);
      return true;
    }
    const Status status = record->query(wake);
    if (status.code() != KEEL_NOT_READY) {
      if (!status.ok()) fail(status);
      return true;
    }
    // Woken at each change of state: parked anew for each.
    const void* parking = seen == EventRecord::State::kHeld
                              ? static_cast<const void*>(record.get())
                              : static_cast<const void*>(record->native());
    if (parked_on_ == parking) return false;
    if (!record->add_waiter(Ref<Stream>(this), seen)) continue;
    parked_on_ = parking;
    if (seen == EventRecord::State::kSubmitted) Runtime::get().progress().watch(record);
    return false;
  }
}

void Stream::advance_locked(WakeList& wake) {
  while (!held_.empty()) {
    Held& head = held_.front();
    if (!has_failed()) {
      if (head.kind == Held::Kind::kWaitGate && !pass_gate(head.gate)) return;
      if (head.kind == Held::Kind::kWaitEvent && !pass_event(head.record, wake)) return;
    }
    parked_on_ = nullptr;
    Held item = std::move(head);
    held_.pop_front();
    const Status known = status();
    if (item.kind == Held::Kind::kWork) {
      if (!known.ok()) continue;  // dropped: its data would be undefined
      const Status submitted = item.work(native_);
      if (!submitted.ok()) fail(submitted);
    } else if (item.kind == Held::Kind::kRecord) {
      const Status recorded = known.ok() ? submit_record(item.record, wake) : known;
      if (recorded.ok()) continue;
      fail(recorded);
      item.record->mark_done(recorded, wake);
    }
  }
}

void Stream::advance(WakeList& wake) {
  std::lock_guard lock(mutex_);
  advance_locked(wake);
}

// ---- waiting from the host ------------------------------------------------------

bool Stream::is_idle() {
  WakeList wake;
  Ref<EventRecord> last;
  if (!fence(&last).ok()) return false;
  const bool idle = last->query(wake).ok();
  advance_all(wake);
  return idle;
}

Status Stream::query() {
  WakeList wake;
  Ref<EventRecord> last;
  KEEL_RETURN_IF_ERROR(fence(&last));
  const Status status = last->query(wake);
  advance_all(wake);
  return status;
}

Status Stream::synchronize(const Deadline& deadline) {
  Ref<EventRecord> last;
  KEEL_RETURN_IF_ERROR(fence(&last));
  return last->wait(deadline);
}

Status Stream::recover(const Deadline& deadline) {
  if (!has_failed()) return synchronize(deadline);
  KEEL_RETURN_IF_ERROR(device_.check_alive());
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    advance_locked(wake);  // a failed stream drops all it holds
  }
  advance_all(wake);
  Status drained = drain(deadline);
  if (drained.code() == KEEL_TIMED_OUT || drained.code() == KEEL_DEVICE_LOST) return drained;
  std::vector<Edge> edges;
  std::lock_guard lock(mutex_);
  if (!drained.ok()) {  // the native stream itself is stuck in the failure
    keel_plugin_stream* fresh = nullptr;
    KEEL_RETURN_IF_ERROR(device_.check(
        device_.stream_table()->create(device_.native(), priority_, &fresh), "stream.create"));
    retired_.push_back(std::exchange(native_, fresh));
  }
  fence_ = nullptr;
  markers_.clear();
  edges_since_marker_ = 0;
  std::lock_guard state_lock(state_mutex_);
  edges.swap(edges_);
  failure_ = {};
  failed_.store(false, std::memory_order_release);
  return {};
}

Status Stream::drain(const Deadline& deadline) {
  Ref<EventRecord> last;
  KEEL_RETURN_IF_ERROR(device_.new_record(0, &last));
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    last->attach(Ref<Stream>(this), /*position=*/0);  // asks for this stream's work alone
    KEEL_RETURN_IF_ERROR(submit_record(last, wake));
  }
  return last->wait(deadline);
}

Status Stream::close(const Deadline& deadline) {
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    if (!held_.empty()) {
      fail(failure(KEEL_CANCELLED, "{}: the stream was destroyed", device_.name()));
      advance_locked(wake);
    }
  }
  advance_all(wake);
  Status drained = drain(deadline);
  if (drained.code() != KEEL_TIMED_OUT) drained = {};
  std::vector<Edge> edges;
  void* workspace = nullptr;
  {
    std::lock_guard lock(mutex_);
    fence_ = nullptr;
    markers_.clear();
    workspace = std::exchange(workspace_, nullptr);
    workspace_size_ = 0;
    std::lock_guard state_lock(state_mutex_);
    edges.swap(edges_);
  }
  return workspace == nullptr ? drained : device_.memory().free(workspace);
}

void Stream::close() {
  const Status status = close(Runtime::get().default_deadline());
  if (!status.ok()) log(KEEL_LOG_WARNING, "{}", status.text());
}

Status Stream::workspace(uint64_t size, void** out_pointer) {
  void* outgrown = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (size > workspace_size_) {
      void* larger = nullptr;
      KEEL_RETURN_IF_ERROR(device_.memory().alloc(KEEL_MEMORY_DEVICE, size, &larger));
      outgrown = std::exchange(workspace_, larger);
      workspace_size_ = size;
    }
    *out_pointer = workspace_;
  }
  // The pool keeps it until the work in flight that may use it is done.
  return outgrown == nullptr ? Status() : device_.memory().free(outgrown);
}

}  // namespace keel
