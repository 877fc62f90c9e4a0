// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/tcp/tcp_wires.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectives/bootstrap/system_failure.h"

namespace keel {

Status TcpWires::open(std::shared_ptr<WireHub> hub, uint64_t context,
                      std::unique_ptr<WireSet>* out_wires) {
  auto wires = std::make_unique<TcpWires>(std::move(hub), context);
  KEEL_RETURN_IF_ERROR(wires->start());
  *out_wires = std::move(wires);
  return {};
}

TcpWires::TcpWires(std::shared_ptr<WireHub> hub, uint64_t context)
    : hub_(std::move(hub)), context_(context) {}

Status TcpWires::start() {
  const size_t world = hub_->table().ranks.size();
  lanes_.resize(world);
  active_.reserve(world * kLanes);
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_failure(errno, "epoll_create1");
  news_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news_) return system_failure(errno, "eventfd");
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = news_.get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, news_.get(), &event) != 0) {
    return system_failure(errno, "epoll_ctl");
  }
  return hub_->add(context_, this);
}

TcpWires::~TcpWires() {
  hub_->remove(context_, this);
  for (auto& peer : lanes_) {
    for (auto& each : peer) {
      if (each) each->end_requests(Status(KEEL_ABORTED, "the communicator is destroyed"));
    }
  }
}

void TcpWires::post_send(uint32_t peer, uint32_t lane_number, WireRequest& request) {
  TcpLane* const found = lane(peer, lane_number);
  if (found == nullptr) {
    request.start();
    request.finish(failure(nullptr));
    return;
  }
  found->post_send(request);
}

void TcpWires::post_receive(uint32_t peer, uint32_t lane_number, WireRequest& request) {
  TcpLane* const found = lane(peer, lane_number);
  if (found == nullptr) {
    request.start();
    request.finish(failure(nullptr));
    return;
  }
  found->post_receive(request);
}

TcpLane* TcpWires::lane(uint32_t peer, uint32_t number) {
  if (is_failed_) return nullptr;
  if (peer >= lanes_.size() || peer == hub_->rank() || number >= kLanes) {
    fail(keel::failure(KEEL_INTERNAL, "no wire from rank {} to lane {} of rank {}", hub_->rank(),
                       number, peer),
         UINT32_MAX);
    return nullptr;
  }
  std::unique_ptr<TcpLane>& found = lanes_[peer][number];
  if (!found) [[unlikely]] {
    found = std::make_unique<TcpLane>(peer, number, hub_->table().epoch);
    if (hub_->rank() > peer) {
      FileDescriptor socket;
      Status status = hub_->connect(peer, number, context_, is_cancelled_, &socket);
      if (status.ok()) status = attach(*found, std::move(socket));
      if (!status.ok()) {
        fail(status.with_prefix(hub_->table().ranks[peer].name() + ": "), peer);
        return nullptr;
      }
    } else {
      take_news();  // the peer may have connected already
      if (is_failed_) return nullptr;
    }
  }
  activate(*found);
  return found.get();
}

void TcpWires::activate(TcpLane& lane) {
  if (lane.is_idle()) active_.push_back(&lane);
}

Status TcpWires::attach(TcpLane& lane, FileDescriptor socket) {
  epoll_event event = {};
  // Edges: progress() reads and writes until the socket has no more before the owner parks.
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = socket.get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    return system_failure(errno, "epoll_ctl");
  }
  lane.attach(std::move(socket));
  return {};
}

void TcpWires::adopt(uint32_t peer, uint32_t lane, FileDescriptor socket) {
  {
    std::lock_guard lock(mutex_);
    arrivals_.push_back({peer, lane, std::move(socket)});
    has_news_.store(true, std::memory_order_release);
  }
  eventfd_write(news_.get(), 1);
}

void TcpWires::wake() {
  eventfd_write(news_.get(), 1);
}

void TcpWires::cancel(const Status& reason) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = reason;
    is_cancelled_.store(true, std::memory_order_relaxed);
    has_news_.store(true, std::memory_order_release);
  }
  eventfd_write(news_.get(), 1);
}

Status TcpWires::failure(uint32_t* out_peer) const {
  std::lock_guard lock(mutex_);
  if (out_peer != nullptr) *out_peer = failed_peer_;
  return failure_;
}

void TcpWires::take_news() {
  std::vector<Arrival> arrivals;
  bool is_cancelled = false;
  {
    std::lock_guard lock(mutex_);
    has_news_.store(false, std::memory_order_relaxed);
    arrivals.swap(arrivals_);
    is_cancelled = !failure_.ok();
  }
  if (is_failed_) return;
  if (is_cancelled) {
    fail(failure(nullptr), UINT32_MAX);
    return;
  }
  for (Arrival& each : arrivals) {
    if (each.peer >= lanes_.size() || each.lane >= kLanes) continue;
    std::unique_ptr<TcpLane>& lane = lanes_[each.peer][each.lane];
    if (!lane) lane = std::make_unique<TcpLane>(each.peer, each.lane, hub_->table().epoch);
    // A rank has one connection a lane; a second one is another process that took its name.
    if (lane->is_attached()) continue;
    const Status status = attach(*lane, std::move(each.socket));
    if (!status.ok()) {
      fail(status, UINT32_MAX);
      return;
    }
  }
}

bool TcpWires::progress() {
  if (has_news_.load(std::memory_order_acquire)) [[unlikely]] {
    take_news();
    return true;
  }
  bool has_moved = false;
  for (size_t i = 0; i < active_.size();) {
    TcpLane& lane = *active_[i];
    const Status status = lane.move(&has_moved, &traffic_);
    if (!status.ok()) [[unlikely]] {
      fail(status.with_prefix(hub_->table().ranks[lane.peer()].name() + ": "), lane.peer());
      return true;
    }
    if (lane.is_idle()) {
      active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return has_moved;
}

void TcpWires::park(int64_t timeout_ns) {
  if (has_news_.load(std::memory_order_acquire)) return;
  constexpr int64_t kMostMs = 1000;
  const int64_t wait = std::clamp<int64_t>((timeout_ns + 999'999) / 1'000'000, 0, kMostMs);
  std::array<epoll_event, 64> events;
  epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(wait));
}

void TcpWires::fail(const Status& why, uint32_t peer) {
  Status first;
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) {
      failure_ = why;
      failed_peer_ = peer;
    }
    first = failure_;
  }
  is_failed_ = true;
  is_cancelled_.store(true, std::memory_order_relaxed);
  for (auto& each : lanes_) {
    for (auto& lane : each) {
      // The connections stay open until the set is destroyed: to close them looks to the peers like
      // a failure of this rank, before the owner could report (HostSession::report).
      if (lane) lane->end_requests(first);
    }
  }
  active_.clear();
}

}  // namespace keel
