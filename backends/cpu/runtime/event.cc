// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/event.h"

namespace keel::cpu {

Clock::time_point deadline_after(int64_t timeout_ns) {
  const Clock::time_point now = Clock::now();
  const std::chrono::nanoseconds timeout(timeout_ns);
  return timeout > Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout;
}

void Wakeups::deliver(keel_status status) {
  if (sleepers_ != nullptr) sleepers_->changed.notify_all();
  for (const Callback& callback : callbacks_) callback.function(callback.user, status);
  sleepers_ = nullptr;
  callbacks_.clear();
}

void Event::complete(keel_status status, Wakeups* out_wakeups) {
  if (timing_) completed_at_ = Clock::now();
  ParkingLot::Slot& place = place_;  // a waiter may free |this| after the unlock
  const std::lock_guard lock(place.mutex);
  state_.store(status, std::memory_order_release);
  callbacks_.swap(out_wakeups->callbacks_);
  out_wakeups->sleepers_ = place.waiters > 0 ? &place : nullptr;
}

void Event::notify(const Callback& callback) {
  {
    const std::lock_guard lock(place_.mutex);
    if (query() == KEEL_NOT_READY) {
      callbacks_.push_back(callback);
      return;
    }
  }
  callback.function(callback.user, query());
}

keel_status Event::wait(Clock::time_point deadline) {
  if (const keel_status status = query(); status != KEEL_NOT_READY) return status;
  std::unique_lock lock(place_.mutex);
  ++place_.waiters;
  place_.changed.wait_until(lock, deadline, [this] { return query() != KEEL_NOT_READY; });
  --place_.waiters;
  const keel_status status = query();
  return status == KEEL_NOT_READY ? KEEL_TIMED_OUT : status;
}

}  // namespace keel::cpu
