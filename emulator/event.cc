// SPDX-License-Identifier: Apache-2.0
#include "emulator/event.h"

#include <utility>

namespace keel::emulator {

std::shared_ptr<Completion> Event::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

Status Event::record(Stream& stream) {
  auto completion = std::make_shared<Completion>();
  Status status = stream.record(completion);
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  current_ = std::move(completion);
  return {};
}

Status Event::hold_back(Stream& stream) const {
  const std::shared_ptr<Completion> completion = current();
  if (completion == nullptr || completion->is_done()) return stream.device().alive();
  return stream.wait(completion);
}

Status Event::query() const {
  Status status = device_->alive();
  if (!status.ok()) return status;
  const std::shared_ptr<Completion> completion = current();
  return completion == nullptr ? Status() : completion->status();
}

Status Event::wait(Time deadline) const {
  const std::shared_ptr<Completion> completion = current();
  Status status = completion == nullptr ? Status() : completion->wait_until(deadline);
  if (status.code() == Code::kTimedOut) return status;
  Status alive = device_->alive();
  return alive.ok() ? status : alive;
}

void Event::notify(Completion::Callback callback) const {
  const std::shared_ptr<Completion> completion = current();
  if (completion == nullptr) {
    callback(Status());
  } else {
    completion->notify(std::move(callback));
  }
}

uint64_t Event::elapsed_ns(const Event& start, const Event& end) {
  const Duration elapsed = end.current()->time() - start.current()->time();
  return elapsed.count() < 0 ? 0 : static_cast<uint64_t>(elapsed.count());
}

}  // namespace keel::emulator
