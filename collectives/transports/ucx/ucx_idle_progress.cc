// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_idle_progress.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"

namespace keel {

Status UcxIdleProgress::start() {
  // The service thread closes the descriptor that it waits for; the worker's own is UCX's.
  FileDescriptor copy(fcntl(worker_.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_failure(errno, "fcntl");
  return ServiceThread::get().add(
      std::move(copy), /*events=*/0,
      [this](uint64_t, uint32_t) {
        const std::lock_guard lock(mutex_);
        if (!is_taken_) serve();
      },
      &service_);
}

void UcxIdleProgress::take_back() {
  {
    const std::lock_guard lock(mutex_);
    is_taken_ = true;
  }
  static_cast<void>(ServiceThread::get().set_events(service_, 0));
}

void UcxIdleProgress::leave() {
  if (!is_taken_ || service_ == 0) return;
  {
    const std::lock_guard lock(mutex_);
    is_taken_ = false;
    serve();
  }
  static_cast<void>(ServiceThread::get().set_events(service_, EPOLLIN));
}

void UcxIdleProgress::stop() {
  if (service_ == 0) return;
  ServiceThread::get().remove(std::exchange(service_, 0));
  is_taken_ = true;
}

void UcxIdleProgress::serve() {
  // Some dozens of messages: other callbacks of the service thread wait.
  constexpr int kMostTurns = 64;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (!worker_.progress() && worker_.arm()) return;
  }
  worker_.signal();  // the service thread goes on
}

}  // namespace keel
