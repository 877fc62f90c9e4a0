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

namespace {

// Some dozens of messages: other callbacks of the service thread wait.
constexpr int kMostTurns = 64;

}  // namespace

Status UcxIdleProgress::start() {
  // The service thread closes the descriptor that it waits for; the worker's own is UCX's.
  FileDescriptor copy(fcntl(worker_.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_failure(errno, "fcntl");
  return ServiceThread::get().add(
      std::move(copy), /*events=*/0,
      [this](uint64_t, uint32_t events) {
        const std::lock_guard lock(mutex_);
        if (events == 0) {
          look();
        } else if (holder_.load() == Holder::kService) {
          serve();
        }
      },
      &service_);
}

void UcxIdleProgress::take_back() {
  {
    const std::lock_guard lock(mutex_);
    holder_.store(Holder::kOwner);
  }
  static_cast<void>(ServiceThread::get().set_events(service_, 0));
}

void UcxIdleProgress::leave() {
  if (holder_.load(std::memory_order_relaxed) != Holder::kOwner || service_ == 0) return;
  // The owner sends what may go at once, as the answer to a long message: its sender waits for it.
  for (int turn = 0; turn < kMostTurns && worker_.progress(); ++turn) continue;
  leaves_.fetch_add(1, std::memory_order_relaxed);
  // Sequentially consistent, as in look(): one of the two sees what the other has written.
  holder_.store(Holder::kNobody);
  if (is_looking_.load() || is_looking_.exchange(true)) return;
  ServiceThread::get().set_deadline(service_, Deadline::after(kLookNs));
}

// With the mutex.
void UcxIdleProgress::look() {
  const uint64_t leaves = leaves_.load(std::memory_order_relaxed);
  const bool is_quiet = leaves == std::exchange(seen_leaves_, leaves);
  Holder holder = Holder::kNobody;
  if (is_quiet && holder_.compare_exchange_strong(holder, Holder::kService)) {
    is_looking_.store(false);
    serve();
    static_cast<void>(ServiceThread::get().set_events(service_, EPOLLIN));
    return;
  }
  if (is_quiet && holder == Holder::kOwner) {
    is_looking_.store(false);  // until the owner's call ends
    if (holder_.load() == Holder::kOwner || is_looking_.exchange(true)) return;
  }
  ServiceThread::get().set_deadline(service_, Deadline::after(kLookNs));
}

void UcxIdleProgress::stop() {
  if (service_ == 0) return;
  ServiceThread::get().remove(service_);  // look() reads the number until then
  service_ = 0;
  holder_.store(Holder::kOwner);
}

void UcxIdleProgress::serve() {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (!worker_.progress() && worker_.arm()) return;
  }
  worker_.signal();  // the service thread goes on
}

}  // namespace keel
