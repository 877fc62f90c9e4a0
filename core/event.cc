#include "core/event.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/device.h"
#include "core/observer.h"
#include "core/stream.h"

namespace keel {

EventRecord::EventRecord(Device& device, keel_plugin_event* native, uint32_t flags)
    : device_(device), native_(native), flags_(flags) {}

EventRecord::~EventRecord() = default;

void EventRecord::prepare() {
  revive();
  state_.store(State::kHeld, std::memory_order_relaxed);
  inherited_ = {};
  status_ = {};
  position_ = 0;
  serial_ = 0;
}

void EventRecord::dispose() {
  waiters_.clear();
  if (serial_ != 0) {
    observers::tell([&](Observer& observer) { observer.forgotten(serial_); });
  }
  device_.recycle(this);
}

bool EventRecord::is_pending() const {
  return state() == State::kSubmitted &&
         device_.stream_table()->event_query(native_) == KEEL_NOT_READY;
}

void EventRecord::detach() {
  stream_ = nullptr;
}

void EventRecord::attach(Ref<Stream> stream, uint64_t position) {
  stream_ = std::move(stream);
  position_ = position;
}

bool EventRecord::add_waiter(Ref<Stream> stream, State seen) {
  std::lock_guard lock(mutex_);
  if (state() != seen) return false;
  waiters_.push_back(std::move(stream));
  return true;
}

void EventRecord::mark_submitted(const Status& inherited, WakeList& wake) {
  std::lock_guard lock(mutex_);
  inherited_ = inherited;
  state_.store(State::kSubmitted, std::memory_order_release);
  changed_.notify_all();
  std::move(waiters_.begin(), waiters_.end(), std::back_inserter(wake));
  waiters_.clear();
}

void EventRecord::mark_done(const Status& status, WakeList& wake) {
  std::lock_guard lock(mutex_);
  if (state() == State::kDone) return;  // another thread saw it first
  status_ = status;
  state_.store(State::kDone, std::memory_order_release);
  changed_.notify_all();
  std::move(waiters_.begin(), waiters_.end(), std::back_inserter(wake));
  waiters_.clear();
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
    wake.push_back(stream_);  // drops what it holds, so that waiters behind it learn of this
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
      return code == KEEL_NOT_READY ? Status::not_ready() : settle(code, wake);
    }
    case State::kDone:
      break;
  }
  return status_;  // written before the state, and not again
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
      if (!changed_.wait_until(lock, deadline.time(), [&] { return state() != State::kHeld; })) {
        break;
      }
    } else if (KEEL_HAS(keel_stream_table, table, event_wait)) {
      const keel_status code = table->event_wait(native_, deadline.remaining_ns());
      if (code == KEEL_TIMED_OUT) break;
      // A wait that fails without the event being done (a lost device) must end here.
      if (code != KEEL_OK) {
        status = settle(code, wake);
        advance_all(wake);
        return status;
      }
      // The event is done; if a stream it depends on is still settling, look again soon.
    } else {
      // From 1 us to 50 us: a chip without a blocking wait costs at most that much more.
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(50));
    }
  }
  take_plugin_text();
  return failure(KEEL_TIMED_OUT, "{}: the deadline passed while waiting for {}", device_.name(),
                 state() == State::kHeld ? "work held behind a closed gate or another stream"
                                         : "work on the device");
}

Ref<EventRecord> Event::current() {
  std::lock_guard lock(mutex_);
  return current_;
}

void Event::set_current(Ref<EventRecord> record) {
  std::lock_guard lock(mutex_);
  std::swap(current_, record);
}

}  // namespace keel
