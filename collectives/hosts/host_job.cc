// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_job.h"

#include <utility>

namespace keel {

HostJob::HostJob(std::unique_ptr<HostSession> session) : session_(std::move(session)) {
  session_->set_on_failure([this](const Status& status) { fail(status); });
}

HostJob::~HostJob() {
  session_->set_on_failure({});
  if (session_->failure().ok()) session_->leave();
}

uint64_t HostJob::watch(std::function<void(const Status&)> on_failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) {
    on_failure(failure_);
    return 0;
  }
  watchers_[next_] = std::move(on_failure);
  return next_++;
}

void HostJob::unwatch(uint64_t number) {
  const std::lock_guard lock(mutex_);
  watchers_.erase(number);
}

void HostJob::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  failure_ = status;
  for (const auto& [number, on_failure] : watchers_) on_failure(status);
}

}  // namespace keel
