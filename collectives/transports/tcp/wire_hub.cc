// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/tcp/wire_hub.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/ipc/host_interface.h"
#include "collectives/bootstrap/handshake.h"
#include "collectives/bootstrap/tcp_dialog.h"
#include "collectives/transports/hub_wires.h"
#include "core/insiders.h"

namespace keel {

Status WireHub::open(const SocketAddress& bind, const HostSecret& secret, uint32_t rank,
                     std::shared_ptr<WireHub>* out_hub) {
  auto hub = std::make_shared<WireHub>(secret, rank);
  KEEL_RETURN_IF_ERROR(silence_ms(&hub->silence_));
  FileDescriptor socket;
  KEEL_RETURN_IF_ERROR(listen_tcp(bind, &socket, &hub->address_));
  const std::weak_ptr<WireHub> weak = hub;
  KEEL_RETURN_IF_ERROR(HostListener::open(
      std::move(socket), secret,
      [weak](const Opening& opening) {
        const auto self = weak.lock();
        return self ? self->admit(opening) : failure(KEEL_NOT_FOUND, "the rank has left");
      },
      [weak](const Opening& opening, FileDescriptor peer) {
        if (const auto self = weak.lock()) self->on_peer(opening, std::move(peer));
      },
      &hub->listener_));
  *out_hub = std::move(hub);
  return {};
}

WireHub::~WireHub() {
  close();
}

void WireHub::close() {
  if (listener_) listener_->close();
  std::map<uint64_t, std::shared_ptr<TcpChannel>> notices;
  {
    std::lock_guard lock(mutex_);
    notices.swap(notices_);
  }
  for (const auto& [number, channel] : notices) channel->close();
  serve({});
}

void WireHub::set_on_notice(OnNotice on_notice) {
  std::lock_guard lock(mutex_);
  on_notice_ = std::move(on_notice);
}

void WireHub::serve(OnRank on_rank) {
  std::lock_guard lock(mutex_);
  on_rank_.swap(on_rank);  // the former one, which may own the server, ends after the unlock
}

void WireHub::set_table(std::shared_ptr<const HostTable> table) {
  std::lock_guard lock(mutex_);
  table_ = std::move(table);
}

Status WireHub::admit(const Opening& opening) {
  std::lock_guard lock(mutex_);
  if (!table_) return {KEEL_UNAVAILABLE, "the rank does not know the others yet"};
  if (opening.job != table_->job) {
    return failure(KEEL_NOT_FOUND, "a rank of another job listens here");
  }
  if (opening.epoch != table_->epoch) {
    return failure(KEEL_FAILED_PRECONDITION,
                   "rank {} has epoch {}, and the job has {}: the rank "
                   "was taken for failed, and is shut out",
                   opening.from, opening.epoch, table_->epoch);
  }
  if (opening.purpose != Opening::Purpose::kWire) {
    if (opening.from >= table_->ranks.size()) {
      return failure(KEEL_INVALID_ARGUMENT, "the job has no rank {}", opening.from);
    }
    const auto finished = finished_.find(opening.context);
    if (opening.purpose == Opening::Purpose::kPresence) {
      return finished == finished_.end() ? Status()
                                         : Status(KEEL_NOT_FOUND, "the rank has finished there");
    }
    if (opening.purpose == Opening::Purpose::kNotice) return {};
    if (finished != finished_.end()) return finished->second;
    return on_rank_ ? Status() : Status(KEEL_UNAVAILABLE, "the rank does not serve the job");
  }
  if (opening.to != rank_ || opening.from >= table_->ranks.size() || opening.from <= rank_) {
    return failure(KEEL_INVALID_ARGUMENT, "a wire from rank {} to rank {} came to rank {}",
                   opening.from, opening.to, rank_);
  }
  return {};
}

void WireHub::on_peer(const Opening& opening, FileDescriptor socket) {
  if (opening.purpose == Opening::Purpose::kPresence) return;  // has its answer
  if (opening.purpose == Opening::Purpose::kNotice) {
    await_notice(std::move(socket));
    return;
  }
  std::unique_lock lock(mutex_);
  if (opening.purpose == Opening::Purpose::kServer) {
    const OnRank on_rank = on_rank_;
    lock.unlock();
    if (on_rank) on_rank(opening.from, std::move(socket));
    return;
  }
  if (!failure_.ok()) return;
  const auto found = wires_.find(opening.context);
  if (found != wires_.end()) {
    // Under the lock, so that the wires are not removed meanwhile.
    found->second->adopt(opening.from, opening.lane, std::move(socket));
    return;
  }
  // Each peer has few communicators that this rank does not have yet.
  constexpr size_t kMostEarlyPerPeer = 256;
  if (early_.size() >= kMostEarlyPerPeer * table_->ranks.size()) return;
  early_[{opening.context, opening.from, opening.lane}] = std::move(socket);
}

void WireHub::await_notice(FileDescriptor socket) {
  std::unique_lock lock(mutex_);
  const uint64_t number = next_notice_++;
  const std::weak_ptr<WireHub> weak = weak_from_this();
  TcpChannel::Callbacks callbacks;
  callbacks.on_message = [weak, number](ByteView message) {
    const auto self = weak.lock();
    if (!self) return;
    Notice notice;
    OnNotice on_notice;
    {
      std::lock_guard guard(self->mutex_);
      on_notice = self->on_notice_;
    }
    if (on_notice && parse_notice(message, &notice).ok()) on_notice(notice);
    self->drop_notice(number);  // last: close() waits for the callbacks of channels that it finds
  };
  const auto drop = [weak, number] {
    if (const auto self = weak.lock()) self->drop_notice(number);
  };
  callbacks.on_end = [drop](const Status&) { drop(); };
  callbacks.on_deadline = drop;
  std::shared_ptr<TcpChannel> channel;
  if (!TcpChannel::open(std::move(socket), kMaxNoticeBytes, std::move(callbacks), &channel).ok()) {
    return;
  }
  notices_[number] = channel;
  channel->set_deadline(Deadline::after(kHandshakeNs));
}

void WireHub::drop_notice(uint64_t number) {
  std::shared_ptr<TcpChannel> channel;
  {
    std::lock_guard lock(mutex_);
    const auto found = notices_.find(number);
    if (found == notices_.end()) return;
    channel = std::move(found->second);
    notices_.erase(found);
  }
  channel->close();
}

Status WireHub::add(uint64_t context, HubWires* wires) {
  std::lock_guard lock(mutex_);
  if (!wires_.emplace(context, wires).second) {
    return failure(KEEL_ALREADY_EXISTS, "the wires of communicator {:#x} are open", context);
  }
  for (auto each = early_.lower_bound({context, 0, 0});
       each != early_.end() && std::get<0>(each->first) == context; each = early_.erase(each)) {
    wires->adopt(std::get<1>(each->first), std::get<2>(each->first), std::move(each->second));
  }
  if (!failure_.ok()) wires->cancel(failure_);
  return {};
}

void WireHub::remove(uint64_t context, const HubWires* wires) {
  std::lock_guard lock(mutex_);
  const auto found = wires_.find(context);
  if (found != wires_.end() && found->second == wires) wires_.erase(found);
}

void WireHub::fail(const Status& why) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = why;
  early_.clear();
  for (const auto& [context, wires] : wires_) wires->cancel(why);
}

Status WireHub::connect(uint32_t peer, uint32_t lane, uint64_t context, const Deadline& deadline,
                        const std::atomic<bool>& cancelled, FileDescriptor* out_socket) {
  constexpr std::chrono::milliseconds kPause(2);
  const Deadline until = insiders::deadline(deadline.remaining_ns());
  const Deadline limit = insiders::deadline(std::min(kHandshakeNs, deadline.remaining_ns()));
  while (true) {
    bool may_pass = false;
    const Status status = try_connect(table_->ranks.at(peer), lane, context, cancelled, limit,
                                      until, out_socket, &may_pass);
    if (status.ok() || !may_pass || limit.passed() || cancelled.load()) return status;
    std::this_thread::sleep_for(kPause);
  }
}

Status WireHub::try_connect(const HostRank& other, uint32_t lane, uint64_t context,
                            const std::atomic<bool>& cancelled, const Deadline& limit,
                            const Deadline& deadline, FileDescriptor* out_socket,
                            bool* out_may_pass) {
  SocketAddress address;
  KEEL_RETURN_IF_ERROR(parse_address(other.address, &address));
  TcpDialog dialog(&cancelled);
  // The route takes the first of several interfaces in the peer's subnet, whatever the rank listens
  // at; routes by source address need this rank's. Elsewhere the route knows better: a host that
  // checks where packets come from drops those of another subnet's address.
  SocketAddress own = address_;
  own.set_port(0);
  const bool is_near = are_in_one_subnet(own, address);
  const Status connected = dialog.connect(address, silence_, limit, is_near ? &own : nullptr);
  if (connected.code() == KEEL_UNAVAILABLE) return {KEEL_RANK_FAILED, connected.text()};
  // The host does not answer, and the kernel, which KEEL_TCP_SILENCE_MS limits, still tries.
  if (connected.code() == KEEL_TIMED_OUT && !deadline.passed()) {
    return {KEEL_RANK_FAILED, connected.text()};
  }
  // Two lost packets are enough for that: the kernel repeats the first one after a second.
  *out_may_pass = connected.code() == KEEL_RANK_FAILED && dialog.has_route();
  KEEL_RETURN_IF_ERROR(connected);
  const Status status = greet(dialog,
                              {.purpose = Opening::Purpose::kWire,
                               .job = table_->job,
                               .epoch = table_->epoch,
                               .context = context,
                               .from = rank_,
                               .to = other.peer.rank,
                               .lane = lane,
                               .address = other.address},
                              deadline);
  if (status.ok()) *out_socket = dialog.take();
  // The peer has no table yet, or a flood of strangers at its port took this connection's place.
  *out_may_pass = status.code() == KEEL_UNAVAILABLE || status.code() == KEEL_RANK_FAILED;
  return status;
}

Status WireHub::greet(TcpDialog& dialog, Opening opening, const Deadline& deadline) {
  HandshakeInitiator handshake(secret_, std::move(opening));
  Bytes message;
  Bytes proof;
  KEEL_RETURN_IF_ERROR(handshake.open(&message));
  KEEL_RETURN_IF_ERROR(dialog.send(message, deadline));
  KEEL_RETURN_IF_ERROR(dialog.receive(kMaxStrangerBytes, deadline, &message));
  KEEL_RETURN_IF_ERROR(handshake.on_challenge(message, &proof));
  KEEL_RETURN_IF_ERROR(dialog.send(proof, deadline));
  KEEL_RETURN_IF_ERROR(dialog.receive(kMaxStrangerBytes, deadline, &message));
  KEEL_RETURN_IF_ERROR(HandshakeInitiator::on_answer(message));
  return dialog.end_handshake();
}

Opening WireHub::opening_to(uint32_t peer, Opening::Purpose purpose, uint64_t context) const {
  return {.purpose = purpose,
          .job = table_->job,
          .epoch = table_->epoch,
          .context = context,
          .from = rank_,
          .to = peer,
          .address = table_->ranks.at(peer).address};
}

Status WireHub::connect_server(uint32_t peer, uint64_t context, const Deadline& deadline,
                               FileDescriptor* out_socket) {
  const HostRank& other = table_->ranks.at(peer);
  const Deadline limit = Deadline::after(std::min(kHandshakeNs, deadline.remaining_ns()));
  SocketAddress address;
  KEEL_RETURN_IF_ERROR(parse_address(other.address, &address));
  TcpDialog dialog;
  const Status connected = dialog.connect(address, silence_, limit);
  if (connected.code() == KEEL_UNAVAILABLE) return {KEEL_RANK_FAILED, connected.text()};
  if (connected.code() == KEEL_TIMED_OUT) return {KEEL_UNAVAILABLE, connected.text()};
  KEEL_RETURN_IF_ERROR(connected);
  if (out_socket == nullptr) return {};
  const Status greeted = greet(dialog, opening_to(peer, Opening::Purpose::kServer, context), limit);
  if (greeted.ok()) *out_socket = dialog.take();
  // A process that accepts a connection has not ended, as far as the kernel of its host knows.
  const bool may_pass = greeted.code() == KEEL_RANK_FAILED || greeted.code() == KEEL_TIMED_OUT;
  if (may_pass) return {KEEL_UNAVAILABLE, greeted.text()};
  return greeted.code() == KEEL_NOT_FOUND ? Status(KEEL_RANK_FAILED, greeted.text()) : greeted;
}

void WireHub::finish(uint64_t context, const Status& refusal) {
  std::lock_guard lock(mutex_);
  finished_.emplace(context, refusal);
}

Status WireHub::ask_presence(uint32_t peer, uint64_t context, const Deadline& deadline,
                             Presence* out_presence) {
  const HostRank& other = table_->ranks.at(peer);
  const Deadline limit = Deadline::after(std::min(kHandshakeNs, deadline.remaining_ns()));
  SocketAddress address;
  KEEL_RETURN_IF_ERROR(parse_address(other.address, &address));
  TcpDialog dialog;
  const Status connected = dialog.connect(address, silence_, limit);
  if (connected.code() == KEEL_UNAVAILABLE || connected.code() == KEEL_RANK_FAILED) {
    *out_presence = Presence::kGone;
    return {};
  }
  if (connected.code() == KEEL_TIMED_OUT) {
    *out_presence = Presence::kUnknown;
    return {};
  }
  KEEL_RETURN_IF_ERROR(connected);
  const Status greeted =
      greet(dialog, opening_to(peer, Opening::Purpose::kPresence, context), limit);
  switch (greeted.code()) {
    case KEEL_OK:
      *out_presence = Presence::kPresent;
      return {};
    case KEEL_NOT_FOUND:            // here, or another job's rank has the port
    case KEEL_FAILED_PRECONDITION:  // another epoch
    case KEEL_PERMISSION_DENIED:    // another job, with another secret
    case KEEL_DATA_LOSS:            // another program
      *out_presence = Presence::kGone;
      return {};
    case KEEL_RANK_FAILED:
    case KEEL_UNAVAILABLE:
      *out_presence = Presence::kUnknown;
      return {};
    case KEEL_TIMED_OUT:
      *out_presence = deadline.passed() ? Presence::kUnknown : Presence::kSilent;
      return {};
    default:
      return greeted;
  }
}

}  // namespace keel
