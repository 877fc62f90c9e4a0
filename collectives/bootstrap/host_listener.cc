// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_listener.h"

#include <sys/epoll.h>

#include <utility>
#include <vector>

#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "core/log.h"

namespace keel {

Status HostListener::open(FileDescriptor socket, HostSecret secret, HandshakeAcceptor::Admit admit,
                          OnPeer on_peer, std::shared_ptr<HostListener>* out_listener, size_t most,
                          int64_t limit_ns) {
  auto listener = std::make_shared<HostListener>(std::move(secret), std::move(admit),
                                                 std::move(on_peer), most, limit_ns);
  const int number = socket.get();
  const std::weak_ptr<HostListener> weak = listener;
  KEEL_RETURN_IF_ERROR(ServiceThread::get().add(
      std::move(socket), EPOLLIN,
      [weak, number](uint64_t id, uint32_t events) {
        if (const auto self = weak.lock()) self->on_event(number, id, events);
      },
      &listener->id_));
  *out_listener = std::move(listener);
  return {};
}

void HostListener::close() {
  std::map<uint64_t, std::shared_ptr<Stranger>> strangers;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  ServiceThread::get().remove(id_);  // from here on nobody is let in
  {
    std::lock_guard lock(mutex_);
    strangers.swap(strangers_);
  }
  for (auto& [number, stranger] : strangers) stranger->channel->close();
}

void HostListener::on_event(int socket, uint64_t id, uint32_t events) {
  if (events == 0) {  // the pause is over
    static_cast<void>(ServiceThread::get().set_events(id, EPOLLIN));
    return;
  }
  constexpr int kMostAtOnce = 64;
  for (int i = 0; i < kMostAtOnce; ++i) {
    FileDescriptor peer;
    const int error = sockets::accept(socket, SOCK_NONBLOCK, &peer);
    if (error == 0) {
      is_short_ = false;
      let_in(std::move(peer));
      continue;
    }
    if (!sockets::is_shortage(error)) return;
    if (drop_oldest()) continue;
    // The others wait for this process, and can only tell that it does not answer.
    if (!std::exchange(is_short_, true)) {
      log(KEEL_LOG_WARNING, "connections from other hosts wait: {}",
          system_failure(error, "accept").text());
    }
    // The queue stays readable, and epoll would report it again at once.
    constexpr int64_t kPauseNs = 50'000'000;
    static_cast<void>(ServiceThread::get().set_events(id, 0));
    ServiceThread::get().set_deadline(id, Deadline::after(kPauseNs));
    return;
  }
}

void HostListener::let_in(FileDescriptor socket) {
  uint32_t silence = 0;
  if (!silence_ms(&silence).ok() || !set_options(socket.get(), silence).ok()) return;
  auto stranger = std::make_shared<Stranger>(Stranger{nullptr, {secret_, admit_}});
  const std::weak_ptr<HostListener> weak = shared_from_this();
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
    number = next_++;
  }
  TcpChannel::Callbacks callbacks;
  callbacks.on_message = [weak, number](ByteView message) {
    if (const auto self = weak.lock()) self->on_message(number, message);
  };
  callbacks.on_end = [weak, number](const Status&) {
    if (const auto self = weak.lock()) self->drop(number);
  };
  callbacks.on_deadline = [weak, number] {
    if (const auto self = weak.lock()) self->drop(number);
  };
  const Status opened = TcpChannel::open(std::move(socket), kMaxStrangerBytes, std::move(callbacks),
                                         &stranger->channel);
  if (!opened.ok()) {
    log(KEEL_LOG_WARNING, "a connection from another host is not let in: {}", opened.text());
    return;
  }
  stranger->channel->set_deadline(Deadline::after(limit_ns_));
  bool is_full = false;
  {
    std::lock_guard lock(mutex_);
    strangers_.emplace(number, stranger);
    is_full = strangers_.size() > most_;
  }
  if (is_full) drop_oldest();
}

void HostListener::on_message(uint64_t number, ByteView message) {
  std::shared_ptr<Stranger> stranger;
  {
    std::lock_guard lock(mutex_);
    const auto found = strangers_.find(number);
    if (found == strangers_.end()) return;
    stranger = found->second;
  }
  Bytes reply;
  const Status status = stranger->handshake.on_message(message, &reply);
  if (!reply.empty()) stranger->channel->send(reply);
  if (status.ok() && !stranger->handshake.is_done()) return;
  {
    std::lock_guard lock(mutex_);
    strangers_.erase(number);
  }
  if (!status.ok()) {
    log(KEEL_LOG_DEBUG, "a connection from another host is refused: {}", status.text());
    stranger->channel->close_when_sent();
    return;
  }
  FileDescriptor socket = stranger->channel->take();
  if (socket) on_peer_(stranger->handshake.opening(), std::move(socket));
}

void HostListener::drop(uint64_t number) {
  std::shared_ptr<Stranger> dropped;
  {
    std::lock_guard lock(mutex_);
    const auto found = strangers_.find(number);
    if (found == strangers_.end()) return;
    dropped = std::move(found->second);
    strangers_.erase(found);
  }
  dropped->channel->close();
}

bool HostListener::drop_oldest() {
  uint64_t oldest = 0;
  {
    std::lock_guard lock(mutex_);
    if (strangers_.empty()) return false;
    oldest = strangers_.begin()->first;
  }
  drop(oldest);
  return true;
}

}  // namespace keel
