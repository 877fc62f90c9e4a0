// SPDX-License-Identifier: Apache-2.0
#include "emulator/completion.h"

#include <utility>

namespace keel::emulator {

Status Completion::status() const {
  return is_done() ? status_ : Status::not_ready();
}

Status Completion::wait_until(Time deadline) const {
  if (is_done()) return status_;
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [this] { return is_done(); })) {
    return Status(Code::kTimedOut);
  }
  return status_;
}

void Completion::notify(Callback callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(status_);
}

std::vector<Completion::Callback> Completion::complete(Status status, Time time) {
  const std::lock_guard lock(mutex_);
  if (is_done()) return {};
  status_ = std::move(status);
  time_ = time;
  done_.store(true, std::memory_order_release);
  changed_.notify_all();
  return std::exchange(callbacks_, {});
}

void Completion::complete_and_notify(const Status& status, Time time) {
  for (const Callback& callback : complete(status, time)) callback(status);
}

}  // namespace keel::emulator
