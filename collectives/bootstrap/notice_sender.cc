// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/notice_sender.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/ipc/socket.h"
#include "collectives/bootstrap/tcp_socket.h"

namespace keel {

std::shared_ptr<NoticeSender> NoticeSender::start(std::shared_ptr<WireHub> hub,
                                                  const Notice& notice,
                                                  std::vector<uint32_t> ranks) {
  std::reverse(ranks.begin(), ranks.end());
  auto sender = std::make_shared<NoticeSender>(std::move(hub), notice, std::move(ranks));
  const std::lock_guard lock(sender->mutex_);
  sender->connect_more_locked();
  return sender;
}

void NoticeSender::connect_more_locked() {
  while (!ranks_.empty() && dialogs_.size() < kMostAtOnce) {
    const uint32_t rank = ranks_.back();
    ranks_.pop_back();
    if (!connect_locked(rank).ok()) dialogs_.erase(rank);
  }
  if (ranks_.empty() && dialogs_.empty()) finished_.notify_all();
}

Status NoticeSender::connect_locked(uint32_t rank) {
  SocketAddress address;
  uint32_t silence = 0;
  KEEL_RETURN_IF_ERROR(parse_address(hub_->table().ranks.at(rank).address, &address));
  KEEL_RETURN_IF_ERROR(silence_ms(&silence));
  FileDescriptor socket;
  int error = sockets::open(address.family(), SOCK_STREAM | SOCK_NONBLOCK, &socket);
  if (error == 0) {
    KEEL_RETURN_IF_ERROR(set_options(socket.get(), silence));
    KEEL_RETURN_IF_ERROR(set_connect_limit(socket.get(), silence));
    error = sockets::connect(socket.get(), address);
  }
  if (error != 0 && error != EINPROGRESS) return connection_failure(error);
  auto dialog = std::make_shared<Dialog>(Dialog{
      nullptr, {hub_->secret(), hub_->opening_to(rank, Opening::Purpose::kNotice, /*context=*/0)}});
  Bytes opening;
  KEEL_RETURN_IF_ERROR(dialog->handshake.open(&opening));
  const std::weak_ptr<NoticeSender> weak = weak_from_this();
  TcpChannel::Callbacks callbacks;
  callbacks.on_message = [weak, rank](ByteView message) {
    if (const auto self = weak.lock()) self->on_message(rank, message);
  };
  callbacks.on_end = [weak, rank](const Status&) {
    if (const auto self = weak.lock()) self->finish(rank, /*is_sent=*/false);
  };
  // The socket keeps the opening until it is connected.
  KEEL_RETURN_IF_ERROR(TcpChannel::open(std::move(socket), kMaxStrangerBytes, std::move(callbacks),
                                        &dialog->channel));
  dialogs_[rank] = dialog;
  dialog->channel->send(opening);
  return {};
}

void NoticeSender::on_message(uint32_t rank, ByteView message) {
  std::shared_ptr<Dialog> dialog;
  {
    const std::lock_guard lock(mutex_);
    const auto found = dialogs_.find(rank);
    if (found == dialogs_.end()) return;
    dialog = found->second;
  }
  if (dialog->has_proven) {
    const bool is_let_in = HandshakeInitiator::on_answer(message).ok();
    if (is_let_in) dialog->channel->send(message_);
    finish(rank, is_let_in);
    return;
  }
  Bytes proof;
  if (!dialog->handshake.on_challenge(message, &proof).ok()) {
    finish(rank, /*is_sent=*/false);
    return;
  }
  dialog->has_proven = true;
  dialog->channel->send(proof);
}

void NoticeSender::finish(uint32_t rank, bool is_sent) {
  std::shared_ptr<Dialog> dialog;
  {
    const std::lock_guard lock(mutex_);
    const auto found = dialogs_.find(rank);
    if (found == dialogs_.end()) return;
    dialog = std::move(found->second);
    dialogs_.erase(found);
  }
  if (is_sent) {
    dialog->channel->close_when_sent();
  } else {
    dialog->channel->close();
  }
  const std::lock_guard lock(mutex_);
  connect_more_locked();
}

void NoticeSender::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  deadline.wait(finished_, lock, [this] { return ranks_.empty() && dialogs_.empty(); });
}

void NoticeSender::close() {
  std::map<uint32_t, std::shared_ptr<Dialog>> dialogs;
  {
    const std::lock_guard lock(mutex_);
    ranks_.clear();
    dialogs.swap(dialogs_);
  }
  for (const auto& [rank, dialog] : dialogs) dialog->channel->close();
}

}  // namespace keel
