// SPDX-License-Identifier: Apache-2.0
// Failure, recovery and end of a stream.
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "core/drain.h"
#include "core/log.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

void Stream::fail_and_drop(const Status& status) {
  fail(status);
  WakeList wake;
  advance(wake);
  advance_all(wake);
}

Status Stream::recover(const Deadline& deadline) {
  if (!has_failed()) {
    const Status status = synchronize(deadline);
    if (!has_failed()) return status;  // else the failure is only known now
  }
  KEEL_RETURN_IF_ERROR(device_.check_alive());
  WakeList wake;
  uint64_t last_recovery = 0;
  {
    std::lock_guard lock(mutex_);
    // Another thread has recovered the stream since the check, perhaps while this thread waited for
    // the lock: work enqueued now runs, and nothing would wait for it.
    if (!has_failed()) return status();
    last_recovery = recovered_at_;
    advance_locked(wake);  // a failed stream drops all held work
  }
  advance_all(wake);
  KEEL_RETURN_IF_ERROR(await_keepers(deadline));
  std::vector<Edges::Edge> edges;  // released without the lock
  Status drained;
  std::unique_lock lock(mutex_, std::defer_lock);
  while (true) {
    uint64_t drained_to = 0;
    drained = drain(deadline, /*for_good=*/false, &drained_to);
    if (may_still_run(drained) || drained.code() == KEEL_DEVICE_LOST) return drained;
    uint64_t helpers_drained_to = 0;
    KEEL_RETURN_IF_ERROR(helper_streams_.drain(deadline, &helpers_drained_to));
    // Lets earlier records, queried later, still learn of failures before them.
    (void)confirm(UINT64_MAX, wake);
    advance_all(wake);
    lock.lock();
    // Closed or recovered by another thread meanwhile; work running now was not waited for.
    if (closed_ || recovered_at_ != last_recovery) return status();
    // A native stream is replaced once all its records are over: records of the new stream vouch
    // for the old records. Work added to a helper stream meanwhile is not waited for on a failed
    // stream, and would be forgotten with the failure.
    if ((drained.ok() || records_submitted_ == drained_to) &&
        helper_streams_.enqueued() == helpers_drained_to) {
      break;
    }
    lock.unlock();
    if (deadline.passed()) {
      return failure(KEEL_TIMED_OUT, "{}: work came in while the stream was drained",
                     device_.name());
    }
  }
  // The native stream's owner must create a new one.
  if (!drained.ok() && wrapped_) return drained;
  observers::tell([&](Observer& observer) { observer.host_saw_idle(*this); });
  if (!drained.ok()) {  // the native stream itself is stuck
    keel_plugin_stream* fresh = nullptr;
    KEEL_RETURN_IF_ERROR(device_.check(
        device_.stream_table()->create(device_.native(), priority_, &fresh), "stream.create"));
    retired_.push_back(std::exchange(native_, fresh));
  }
  fence_ = nullptr;
  marks_ = {};
  markers_.clear();
  edges_since_marker_ = 0;
  memory_fences_.clear();
  timeline_->mark_done(position_);
  timeline_->forget_waits();
  edges = edges_.forget(position_);
  std::lock_guard state_lock(state_mutex_);
  recovered_at_ = ++position_;
  timeline_->advance(position_);
  failure_ = {};
  slow_path_flags_.fetch_and(~kHasFailed, std::memory_order_release);
  return {};
}

Status Stream::await_keepers(const Deadline& deadline) {
  const Status status = pending_gates_.wait(deadline);
  return status.ok() ? status : status.with_prefix(device_.name() + ": ");
}

Status Stream::drain(const Deadline& deadline, bool for_good, uint64_t* out_order) {
  const keel_stream_table* table = device_.stream_table();
  const bool synchronizes = KEEL_HAS(keel_stream_table, table, synchronize);
  keel_plugin_stream* native = nullptr;
  Ref<EventRecord> last;
  {
    std::lock_guard lock(mutex_);
    // The stream is empty, or close() waits for it to become so: no close would wait for a record
    // made here.
    if (drained_ && !for_good) return {};
    native = native_;
    if (!synchronizes) {
      WakeList wake;
      Status marked = records_.take(*this, 0, &last);
      if (marked.ok()) {
        last->set_position(0);  // covers this stream's work only
        marked = submit_record(last, {}, wake);
      }
      // The handle's owner may be capturing on the stream, which then takes no event. An older
      // fence serves as well if Keel has enqueued nothing behind the fence.
      if (wrapped_ && may_still_run(marked)) {
        last = fence_position_ == position_ ? fence_ : nullptr;
        if (last || position_ == 0) marked = {};
      }
      KEEL_RETURN_IF_ERROR(marked);
    }
    drained_ = for_good;
    if (out_order != nullptr) *out_order = records_submitted_;
  }
  if (!synchronizes) return last ? known_over(last->wait(deadline)) : Status();
  const keel_status code = deadline.wait_in_slices(
      [&](int64_t timeout_ns) { return table->synchronize(native, timeout_ns); });
  if (code != KEEL_TIMED_OUT) return known_over(device_.check(code, "stream.synchronize"));
  take_plugin_text();
  return failure(KEEL_TIMED_OUT, "{}: the deadline passed while a stream was drained",
                 device_.name());
}

Status Stream::drain_helper(const Deadline& deadline) {
  WakeList wake;
  advance(wake);
  advance_all(wake);
  // The awaited events will never come: otherwise the owner's queue would not be empty.
  if ((slow_path_flags_.load(std::memory_order_acquire) & kHasHeld) != 0) {
    fail_and_drop(failure(KEEL_CANCELLED, "{}: the stream that this is a part of has failed",
                          device_.name()));
  }
  const Status drained = drain(deadline);
  if (may_still_run(drained)) return drained;
  std::lock_guard lock(mutex_);
  observers::tell([&](Observer& observer) { observer.host_saw_idle(*this); });
  return drained;
}

Status Stream::close(const Deadline& deadline) {
  try {
    return close_now(deadline);
  } catch (const std::bad_alloc&) {
    device_.keep_unfinished(Ref<Stream>(this));
    throw;
  }
}

Status Stream::close_now(const Deadline& deadline) {
  WakeList wake;
  {
    std::lock_guard lock(mutex_);
    if (closed_ && wrapped_) {
      // A second close at the device's end, after a failed destroy: the handle is the owner's
      // again, and may be destroyed already.
      device_.keep_unfinished(Ref<Stream>(this));
      return failure(KEEL_TIMED_OUT, "{}: a native stream of somebody else's is left as it is",
                     device_.name());
    }
    closed_ = true;
    helper_streams_.refuse();
    fail(failure(KEEL_CANCELLED, "{}: the stream was destroyed", device_.name()));
    advance_locked(wake);
  }
  advance_all(wake);
  Status drained = await_keepers(deadline);
  if (drained.ok()) drained = drain(deadline);
  if (!may_still_run(drained)) drained = helper_streams_.drain(deadline);
  // Again: a record of a second thread may have come in between.
  if (!may_still_run(drained)) drained = drain(deadline, /*for_good=*/true);
  if (may_still_run(drained)) {
    device_.keep_unfinished(Ref<Stream>(this));
    return drained;
  }
  (void)confirm(UINT64_MAX, wake);  // for events that outlive the stream
  advance_all(wake);
  std::vector<Edges::Edge> edges;
  {
    std::lock_guard lock(mutex_);
    observers::tell([&](Observer& observer) { observer.closed(*this); });
    fence_ = nullptr;
    marks_ = {};
    markers_.clear();
    memory_fences_.clear();
    edges = edges_.forget(UINT64_MAX);
  }
  pending_gates_.clear();
  helper_streams_.give_back();
  timeline_->finish();
  release_records();
  return workspace_.free_all(device_.memory());
}

void Stream::release_records() {
  EventRecord* records = nullptr;
  {
    std::lock_guard lock(mutex_);
    fence_ = nullptr;
    markers_.clear();
    records = records_.close();
  }
  RecordPool::retire_all(records);
}

void Stream::close() {
  // The work of a lost device ends now or never.
  constexpr int64_t kLostNs = 100'000'000;
  try {
    const Status status =
        close(device_.is_lost() ? Deadline::after(kLostNs) : Runtime::get().default_deadline());
    if (!status.ok()) log(KEEL_LOG_WARNING, "{}", status.text());
  } catch (const std::bad_alloc&) {
    // The device keeps the stream.
  }
}

void Stream::abandon() {
  // Destroyed without the locks: a record may hold the last reference to a stream.
  Ref<EventRecord> fence;
  decltype(markers_) markers;
  MemoryFences memory_fences;
  std::vector<Edges::Edge> edges;
  {
    std::lock_guard lock(mutex_);
    std::swap(fence, fence_);
    marks_ = {};
    markers.swap(markers_);
    memory_fences.swap(memory_fences_);
    edges = edges_.forget(UINT64_MAX);
  }
  pending_gates_.clear();
  helper_streams_.abandon();
  release_records();
}

}  // namespace keel
