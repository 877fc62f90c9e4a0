// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/device.h"
#include "core/observer.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

EventRecord::EventRecord(Stream& stream, uint32_t flags)
    : device_(stream.device()), stream_(&stream), flags_(flags) {}

EventRecord::~EventRecord() {
  if (native_ != nullptr) device_.stream_table()->event_destroy(native_);
}

void EventRecord::dispose() {
  if (!is_clean_) [[unlikely]] {
    clean_up();
  }
  stream_->records().give_back(this);
}

void EventRecord::clean_up() {
  waiters_.clear();
  if (serial_ != 0) {
    observers::tell([&](Observer& observer) { observer.forgotten(serial_); });
  }
  inherited_ = {};
  status_ = {};
  reports_changes_ = false;
  end_number_ = 0;
  serial_ = 0;
  is_clean_ = true;
}

bool EventRecord::add_waiter(Ref<Stream> stream, State seen) {
  std::lock_guard lock(mutex_);
  if (state() != seen) return false;
  is_clean_ = false;
  waiters_.push_back(std::move(stream));
  return true;
}

void EventRecord::report_changes() {
  std::lock_guard lock(mutex_);
  is_clean_ = false;
  reports_changes_ = true;
}

void EventRecord::mark_submitted(uint64_t order, const Status& inherited, WakeList& wake) {
  std::lock_guard lock(mutex_);
  order_ = order;
  if (!inherited.ok()) is_clean_ = false;
  inherited_ = inherited;
  set_state(kSubmittedNow);
  if (reports_changes_) Runtime::get().host_callbacks().note_change();
  changed_.notify_all();
  wake.splice(wake.end(), waiters_);
}

void EventRecord::mark_done(const Status& status, WakeList& wake) {
  std::lock_guard lock(mutex_);
  const State before = state();
  if (before == State::kDone) return;  // another thread was first
  if (!status.ok()) is_clean_ = false;
  status_ = status;
  if (reports_changes_) end_number_ = Runtime::get().host_callbacks().number_end();
  set_state(status.ok() ? kEndedWell : kEndedBadly);
  if (reports_changes_) Runtime::get().host_callbacks().note_change();
  if (before == State::kHeld) changed_.notify_all();  // no thread blocks on it in a later state
  wake.splice(wake.end(), waiters_);
}

Status EventRecord::settle(keel_status native_code, WakeList& wake) {
  Status status = device_.check(native_code, "stream.event_query");
  if (!inherited_.ok()) {
    status = inherited_;
  } else if (status.ok()) {
    status = stream_->confirm(position_, wake);
    if (status.code() == KEEL_NOT_READY) return status;
  } else {
    stream_->fail(status, position_);
    wake.push_back(stream_);  // advance it: it drops held work, and wakes waiters behind it
  }
  mark_done(status, wake);
  return status;
}

Status EventRecord::query(WakeList& wake) {
  switch (state()) {
    case State::kHeld:
      return Status::not_ready();
    case State::kSubmitted: {
      const keel_status code = device_.stream_table()->event_query(native_);
      if (code == KEEL_NOT_READY) return Status::not_ready();
      return answered(code, wake);
    }
    case State::kDone:
      break;
  }
  return status_;  // written before the state, and never again
}

Status EventRecord::answered(keel_status native_code, WakeList& wake) {
  stream_->records().note_over(order_);
  return settle(native_code, wake);
}

void EventRecord::answered_badly(keel_status native_code) {
  WakeList wake;
  (void)answered(native_code, wake);
  advance_all(wake);
}

Status EventRecord::query_by_host(WakeList& wake) {
  Status status = query(wake);
  if (serial_ != 0 && status.code() != KEEL_NOT_READY) {
    observers::tell([&](Observer& observer) { observer.host_saw_done(serial_); });
  }
  return status;
}

Status EventRecord::wait(const Deadline& deadline) {
  const keel_stream_table* table = device_.stream_table();
  WakeList wake;
  auto pause = std::chrono::microseconds(1);
  while (true) {
    Status status = query_by_host(wake);
    advance_all(wake);
    if (status.code() != KEEL_NOT_READY) return status;
    if (deadline.passed()) break;
    if (state() == State::kHeld) {
      std::unique_lock lock(mutex_);
      if (!deadline.wait(changed_, lock, [&] { return state() != State::kHeld; })) break;
    } else if (KEEL_HAS(keel_stream_table, table, event_wait)) {
      // The work of a device that Keel gave up (a native operation that cannot be aborted) may
      // never end, and its plugin does not know.
      const keel_status code = deadline.wait_in_slices([&](int64_t timeout_ns) -> keel_status {
        const keel_status waited = table->event_wait(native_, timeout_ns);
        return waited == KEEL_TIMED_OUT && device_.is_lost() ? KEEL_DEVICE_LOST : waited;
      });
      if (code == KEEL_TIMED_OUT) break;
      // A wait can fail without the event being done (a lost device): end here.
      if (code != KEEL_OK) {
        status = settle(code, wake);
        advance_all(wake);
        return status;
      }
      // The native event is done. If a stream that it depends on is not settled yet, query again
      // soon.
    } else {
      // 1 us, doubling to 50 us: the extra latency of a chip without a blocking wait is at most
      // that.
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(50));
    }
  }
  take_plugin_text();
  return failure(KEEL_TIMED_OUT, "{}: the deadline passed while waiting for {}", device_.name(),
                 state() == State::kHeld ? "work held behind a closed gate or another stream"
                                         : "work on the device");
}

Ref<EventRecord> Event::current() const {
  EpochSection section;
  while (true) {
    EventRecord* record = current_.load(std::memory_order_acquire);
    if (record == nullptr) return {};
    // Without a reference the record may begin another life: only if it is still the last record
    // after the reference was taken, it is the record that was asked for.
    if (!record->try_retain()) continue;
    Ref<EventRecord> kept = Ref<EventRecord>::adopt(record);
    if (current_.load(std::memory_order_acquire) == record) return kept;
  }
}

}  // namespace keel
