// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/tcp/tcp_wires.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace keel {

Status TcpWires::open(std::shared_ptr<WireHub> hub, uint64_t context,
                      std::unique_ptr<WireSet>* out_wires) {
  auto wires = std::make_unique<TcpWires>(std::move(hub), context);
  KEEL_RETURN_IF_ERROR(wires->start());
  *out_wires = std::move(wires);
  return {};
}

Status TcpWires::start() {
  const HostTable& table = hub_->table();
  beside_ = table.on_machine_of(hub_->rank());
  const size_t world = table.ranks.size();
  lanes_.resize(world);
  active_.reserve(world * kLanes);
  KEEL_RETURN_IF_ERROR(open_descriptors());
  return enter_hub();
}

TcpWires::~TcpWires() {
  leave_hub();
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

std::unique_ptr<TcpLane> TcpWires::make_lane(uint32_t peer, uint32_t number) const {
  const bool is_beside = std::binary_search(beside_.begin(), beside_.end(), peer);
  return std::make_unique<TcpLane>(peer, number, hub_->table().epoch,
                                   is_beside ? TcpLane::kSmallTurnBytes : TcpLane::kTurnBytes);
}

TcpLane* TcpWires::lane(uint32_t peer, uint32_t number) {
  if (is_failed_) return nullptr;
  if (const Status known = check_wire(peer, number); !known.ok()) {
    fail(known, UINT32_MAX);
    return nullptr;
  }
  std::unique_ptr<TcpLane>& found = lanes_[peer][number];
  if (!found) [[unlikely]] {
    found = make_lane(peer, number);
    if (hub_->rank() > peer) {
      connect_later(peer, number);
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
  // Edges: progress() reads and writes until the socket has no more before the owner parks.
  KEEL_RETURN_IF_ERROR(watch(socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 0));
  lane.attach(std::move(socket));
  return {};
}

void TcpWires::take_news() {
  std::vector<Arrival> arrivals;
  const Status cancelled = take_arrivals(&arrivals);
  if (is_failed_) return;
  if (!cancelled.ok()) {
    fail(cancelled, UINT32_MAX);
    return;
  }
  for (Arrival& each : arrivals) {
    if (each.peer >= lanes_.size() || each.lane >= kLanes) continue;
    std::unique_ptr<TcpLane>& lane = lanes_[each.peer][each.lane];
    if (!lane) lane = make_lane(each.peer, each.lane);
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
  if (has_news()) [[unlikely]] {
    take_news();
    return true;
  }
  bool has_moved = false;
  for (size_t i = 0; i < active_.size();) {
    TcpLane& lane = *active_[i];
    const Status status = lane.move(&has_moved, &traffic_);
    if (!status.ok()) [[unlikely]] {
      fail(status.with_prefix(peer_name(lane.peer()) + ": "), lane.peer());
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
  if (has_news()) return;
  std::array<epoll_event, 64> events;
  wait(timeout_ns, events);
  look_for_silence();
}

void TcpWires::look_for_silence() {
  const std::optional<int64_t> now = is_failed_ ? std::nullopt : time_to_look();
  if (!now) return;
  for (TcpLane* const lane : active_) {
    const Status status = lane->look_for_silence(*now);
    if (status.ok()) continue;
    fail(status.with_prefix(peer_name(lane->peer()) + ": "), lane->peer());
    return;
  }
}

std::vector<uint32_t> TcpWires::unconnected() const {
  std::set<uint32_t> peers;
  for (const TcpLane* each : active_) {
    if (!each->is_attached()) peers.insert(each->peer());
  }
  return {peers.begin(), peers.end()};
}

void TcpWires::fail(const Status& why, uint32_t peer) {
  const Status first = note_failure(why, peer);
  is_failed_ = true;
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
