// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/hub_wires.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <keel/thread_start.hpp>
#include <new>
#include <utility>

#include "collectives/bootstrap/system_failure.h"

namespace keel {

Status HubWires::open_descriptors() {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_failure(errno, "epoll_create1");
  news_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news_) return system_failure(errno, "eventfd");
  return watch(news_.get(), EPOLLIN | EPOLLET, kNews);
}

void HubWires::leave_hub() {
  hub_->remove(context_, this);
  is_cancelled_.store(true, std::memory_order_relaxed);
  for (auto& [lane, thread] : connecting_) thread.join();
  connecting_.clear();
}

void HubWires::connect_later(uint32_t peer, uint32_t lane) {
  try {
    connecting_[{peer, lane}] = kit::start_thread<std::thread>(
        "keel-connect",
        [this, peer, lane, deadline = deadline_] { run_connect(peer, lane, deadline); });
  } catch (const std::bad_alloc& error) {
    connecting_.erase({peer, lane});
    cancel({KEEL_OUT_OF_MEMORY, error.what()});
  }
}

void HubWires::run_connect(uint32_t peer, uint32_t lane, const Deadline& deadline) {
  FileDescriptor socket;
  const Status status = hub_->connect(peer, lane, context_, deadline, is_cancelled_, &socket);
  if (status.ok()) {
    adopt(peer, lane, std::move(socket));
    return;
  }
  static_cast<void>(note_failure(status.with_prefix(peer_name(peer) + ": "), peer));
  has_news_.store(true, std::memory_order_release);
  eventfd_write(news_.get(), 1);
}

Status HubWires::watch(int descriptor, uint32_t events, uint64_t data) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = data;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return system_failure(errno, "epoll_ctl");
  }
  return {};
}

size_t HubWires::wait(int64_t timeout_ns, std::span<epoll_event> events) {
  constexpr int64_t kMostMs = 1000;
  const int64_t wait = std::clamp<int64_t>((timeout_ns + 999'999) / 1'000'000, 0, kMostMs);
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(wait));
  return count > 0 ? static_cast<size_t>(count) : 0;
}

Status HubWires::check_wire(uint32_t peer, uint32_t lane) const {
  if (peer < hub_->table().ranks.size() && peer != hub_->rank() && lane < kLanes) return {};
  return keel::failure(KEEL_INTERNAL, "no wire from rank {} to lane {} of rank {}", hub_->rank(),
                       lane, peer);
}

void HubWires::adopt(uint32_t peer, uint32_t lane, FileDescriptor socket) {
  {
    std::lock_guard lock(mutex_);
    arrivals_.push_back({peer, lane, std::move(socket)});
    has_news_.store(true, std::memory_order_release);
  }
  eventfd_write(news_.get(), 1);
}

void HubWires::wake() {
  eventfd_write(news_.get(), 1);
}

void HubWires::cancel(const Status& reason) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = reason;
    is_cancelled_.store(true, std::memory_order_relaxed);
    has_news_.store(true, std::memory_order_release);
  }
  eventfd_write(news_.get(), 1);
}

Status HubWires::failure(uint32_t* out_peer) const {
  std::lock_guard lock(mutex_);
  if (out_peer != nullptr) *out_peer = failed_peer_;
  return failure_;
}

Status HubWires::take_arrivals(std::vector<Arrival>* out_arrivals) {
  Status failure;
  {
    std::lock_guard lock(mutex_);
    has_news_.store(false, std::memory_order_relaxed);
    out_arrivals->swap(arrivals_);
    failure = failure_;
  }
  for (const Arrival& each : *out_arrivals) {
    auto ended = connecting_.extract({each.peer, each.lane});
    if (ended) ended.mapped().join();
  }
  return failure;
}

Status HubWires::note_failure(const Status& why, uint32_t peer) {
  std::lock_guard lock(mutex_);
  if (failure_.ok()) {
    failure_ = why;
    failed_peer_ = peer;
  }
  is_cancelled_.store(true, std::memory_order_relaxed);
  return failure_;
}

std::optional<int64_t> HubWires::time_to_look() {
  constexpr int64_t kLookNs = 100'000'000;
  if (!next_look_.passed()) return {};
  next_look_ = Deadline::after(kLookNs);
  return std::chrono::nanoseconds(Deadline::Clock::now().time_since_epoch()).count();
}

}  // namespace keel
