// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_wires.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace keel {

namespace {

// How long UCX may take to let go of canceled requests, before its worker is destroyed.
constexpr int64_t kDrainNs = 2'000'000'000;
constexpr int64_t kCloseNs = 1'000'000'000;

}  // namespace

Status UcxWires::open(std::shared_ptr<WireHub> hub, uint64_t context,
                      std::unique_ptr<WireSet>* out_wires) {
  auto wires = std::make_unique<UcxWires>(std::move(hub), context);
  KEEL_RETURN_IF_ERROR(wires->start());
  *out_wires = std::move(wires);
  return {};
}

Status UcxWires::start() {
  const size_t world = hub_->table().ranks.size();
  peers_.resize(world);
  active_.reserve(world);
  shared_.rank = hub_->rank();
  shared_.epoch = hub_->table().epoch;
  KEEL_RETURN_IF_ERROR(open_descriptors());
  const UcxLibrary* library = nullptr;
  KEEL_RETURN_IF_ERROR(UcxLibrary::get(&library));
  KEEL_RETURN_IF_ERROR(
      shared_.worker.open(*library, hub_->address().is_loopback(), world, &on_message, this));
  KEEL_RETURN_IF_ERROR(watch(shared_.worker.descriptor(), EPOLLIN, kWorkerEvent));
  KEEL_RETURN_IF_ERROR(idle_progress_.start());
  return enter_hub();
}

UcxWires::~UcxWires() {
  leave_hub();
  idle_progress_.stop();
  if (!shared_.worker.is_open()) return;
  const auto is_posted = [](const UcxPeer* each) { return !each->is_idle(); };
  if (std::any_of(active_.begin(), active_.end(), is_posted)) {
    fail(Status(KEEL_ABORTED, "the communicator is destroyed"), UINT32_MAX);
  }
  const bool is_forced = is_failed_;
  for (const auto& each : peers_) {
    if (!each || is_forced) continue;
    each->say_farewell();
    // Messages that were never received go back to UCX.
    each->end(Status(KEEL_ABORTED, "the communicator is destroyed"));
  }
  // Data that UCX has not read when its sockets close resets the connections, and loses what this
  // rank has sent last.
  for (int i = 0; !is_forced && i < 100 && shared_.worker.progress(); ++i) continue;
  for (const auto& each : peers_) {
    if (each) each->close(is_forced);
  }
  const Deadline deadline = Deadline::after(kCloseNs);
  const auto is_closing = [](const auto& each) { return each && each->is_closing(); };
  while ((std::any_of(peers_.begin(), peers_.end(), is_closing) || is_touched()) &&
         !deadline.passed()) {
    if (!shared_.worker.progress()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  abandon();
}

void UcxWires::post_send(uint32_t rank, uint32_t lane, WireRequest& request) {
  UcxPeer* const found = peer(rank, lane);
  if (found == nullptr) {
    request.start();
    request.finish(failure(nullptr));
    return;
  }
  found->post_send(lane, request);
  if (found->is_idle()) retire_idle(*found);
}

void UcxWires::post_receive(uint32_t rank, uint32_t lane, WireRequest& request) {
  UcxPeer* const found = peer(rank, lane);
  if (found == nullptr) {
    request.start();
    request.finish(failure(nullptr));
    return;
  }
  found->post_receive(lane, request);
  if (found->is_idle()) retire_idle(*found);
}

UcxPeer* UcxWires::peer(uint32_t rank, uint32_t lane) {
  if (is_failed_) return nullptr;
  if (const Status known = check_wire(rank, lane); !known.ok()) {
    fail(known, UINT32_MAX);
    return nullptr;
  }
  idle_progress_.take();
  std::unique_ptr<UcxPeer>& found = peers_[rank];
  if (!found) [[unlikely]] {
    found = std::make_unique<UcxPeer>(rank, shared_);
    if (hub_->rank() > rank) {
      connect_later(rank, /*lane=*/0);
    } else {
      take_news();  // the peer may have connected already
      if (is_failed_) return nullptr;
    }
  }
  if (!found->is_active) {
    active_.push_back(found.get());
    found->is_active = true;
    found->control().restart_silence();
  }
  return found.get();
}

void UcxWires::retire_idle(UcxPeer& peer) {
  peer.is_active = false;
  active_.erase(std::find(active_.begin(), active_.end(), &peer));
  if (active_.empty()) idle_progress_.leave();
}

Status UcxWires::attach(UcxPeer& peer, FileDescriptor socket) {
  KEEL_RETURN_IF_ERROR(watch(socket.get(), EPOLLIN | EPOLLRDHUP, peer.rank()));
  return peer.attach(std::move(socket));
}

void UcxWires::take_news() {
  std::vector<Arrival> arrivals;
  const Status cancelled = take_arrivals(&arrivals);
  if (is_failed_) return;
  if (!cancelled.ok()) {
    fail(cancelled, UINT32_MAX);
    return;
  }
  idle_progress_.take();
  for (Arrival& each : arrivals) {
    if (each.peer >= peers_.size() || each.lane != 0) continue;
    std::unique_ptr<UcxPeer>& found = peers_[each.peer];
    if (!found) found = std::make_unique<UcxPeer>(each.peer, shared_);
    // A rank connects once; a second connection is of another process that took its name.
    if (found->control().is_attached()) continue;
    const Status status = attach(*found, std::move(each.socket));
    if (!status.ok()) {
      fail(status, UINT32_MAX);
      return;
    }
  }
}

ucx::Result UcxWires::on_message(void* wires, const void* header, size_t header_size, void* data,
                                 size_t size, const ucx::ReceiveParam* param) {
  auto& self = *static_cast<UcxWires*>(wires);
  UcxHeader found;
  if (header_size != sizeof(found)) return ucx::Result::kOk;
  std::memcpy(&found, header, sizeof(found));
  if (found.bytes != size || found.from >= self.peers_.size()) return ucx::Result::kOk;
  UcxPeer* const peer = self.peers_[found.from].get();
  if (peer == nullptr) return ucx::Result::kOk;
  const bool is_rendezvous = (param->recv_attr & ucx::ReceiveParam::kRendezvous) != 0;
  return peer->take_message(found, data, is_rendezvous);
}

bool UcxWires::progress() {
  bool has_news_come = false;
  if (has_news()) [[unlikely]] {
    take_news();
    has_news_come = true;
  }
  if (is_failed_) [[unlikely]] {
    return drain() || has_news_come;
  }
  if (active_.empty()) {
    idle_progress_.leave();
    return has_news_come;
  }
  bool has_moved = shared_.worker.progress() || has_news_come;
  for (size_t i = 0; i < active_.size();) {
    UcxPeer& each = *active_[i];
    const uint64_t posted = each.posted();
    const Status status = each.move();
    if (!status.ok()) [[unlikely]] {
      fail(status.with_prefix(peer_name(each.rank()) + ": "), each.rank());
      return true;
    }
    has_moved = has_moved || each.posted() != posted;
    if (each.is_idle()) {
      each.is_active = false;
      active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (active_.empty()) idle_progress_.leave();
  return has_moved;
}

void UcxWires::park(int64_t timeout_ns) {
  if (has_news()) return;
  idle_progress_.take();  // of the connections beside the endpoints, too
  if (shared_.worker.is_open() && !shared_.worker.arm()) return;  // there is something to do
  for (const UcxPeer* each : active_) timeout_ns = std::min(timeout_ns, each->judges_in_ns());
  std::array<epoll_event, 64> events;
  const size_t count = wait(timeout_ns, events);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t rank = events[i].data.u64;
    if (rank >= peers_.size()) continue;
    // It would stay readable.
    if (!peers_[rank]->move_control()) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peers_[rank]->control().socket(), nullptr);
    }
  }
  look_for_silence();
  if (active_.empty() && !is_touched()) idle_progress_.leave();
}

void UcxWires::look_for_silence() {
  const std::optional<int64_t> now = is_failed_ ? std::nullopt : time_to_look();
  if (!now) return;
  for (UcxPeer* const each : active_) {
    const Status status = each->control().look_for_silence(*now);
    if (status.ok()) continue;
    fail(status.with_prefix(peer_name(each->rank()) + ": "), each->rank());
    return;
  }
}

std::vector<uint32_t> UcxWires::unconnected() const {
  std::vector<uint32_t> peers;
  for (UcxPeer* const each : active_) {
    if (!each->control().is_attached()) peers.push_back(each->rank());
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

bool UcxWires::is_touched() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const auto& each) { return each && each->is_touched(); });
}

void UcxWires::fail(const Status& why, uint32_t peer) {
  const Status first = note_failure(why, peer);
  idle_progress_.take();
  is_failed_ = true;
  drain_ = Deadline::after(kDrainNs);
  for (const auto& each : peers_) {
    if (each) each->end(first);
  }
  active_.clear();
}

bool UcxWires::drain() {
  if (!is_touched()) {
    // Peers that leave in order wait until their last messages have been acknowledged.
    if (shared_.worker.is_open()) idle_progress_.leave();
    return false;
  }
  const bool has_moved = shared_.worker.progress();
  if (is_touched() && drain_->passed()) abandon();
  return has_moved || !is_touched();
}

void UcxWires::abandon() {
  idle_progress_.stop();
  for (const auto& each : peers_) {
    if (each) each->forget_closing();
  }
  shared_.worker.close();
  for (const auto& each : shared_.operations.all()) {
    if (each->is_in_flight) each->peer->abandon(*each);
  }
}

}  // namespace keel
