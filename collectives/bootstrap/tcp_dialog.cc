// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_dialog.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/ipc/poll.h"
#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/system_failure.h"
#include "core/insiders.h"

namespace keel {

Status message_size(ByteView header, size_t limit, size_t* out_size) {
  uint32_t magic = 0;
  uint32_t size = 0;
  std::memcpy(&magic, header.data(), sizeof(magic));
  std::memcpy(&size, header.data() + kMessageSizeOffset, sizeof(size));
  if (magic != kMessageMagic) {
    return failure(KEEL_DATA_LOSS, "a message is malformed: it does not begin as Keel's do");
  }
  if (size < kMessageHeader || size > limit) {
    return failure(KEEL_DATA_LOSS,
                   "a message is malformed: it says that it has {} bytes, {} to {} "
                   "are allowed",
                   size, kMessageHeader, limit);
  }
  *out_size = size;
  return {};
}

Status TcpDialog::connect(const SocketAddress& address, uint32_t silence, const Deadline& deadline,
                          const SocketAddress* from) {
  int error = sockets::open(address.family(), SOCK_STREAM | SOCK_NONBLOCK, &socket_);
  if (error != 0) return system_failure(error, "a TCP socket");
  KEEL_RETURN_IF_ERROR(set_options(socket_.get(), silence));
  KEEL_RETURN_IF_ERROR(set_connect_limit(socket_.get(), silence));
  if (from != nullptr) {
    error = sockets::bind(socket_.get(), *from);
    if (error != 0) return system_failure(error, fmt::format("a socket at {}", from->host()));
  }
  error = sockets::connect(socket_.get(), address);
  has_route_ = error != ENETUNREACH;
  if (error == EINPROGRESS) {
    KEEL_RETURN_IF_ERROR(wait(POLLOUT, deadline));
    error = sockets::pending_error(socket_.get());
  }
  if (error == ECONNREFUSED) {
    return failure(KEEL_UNAVAILABLE, "no process listens at {}", address.text());
  }
  // The kernel of this host knows no way, at once. A neighbour that does not answer, or a router
  // that knows no way (EHOSTUNREACH or ENETUNREACH later), may be starting.
  if (!has_route_) {
    return failure(KEEL_RANK_FAILED,
                   "this host has no route to {}: compare `ip route get {}` with KEEL_INTERFACE of "
                   "the other host",
                   address.text(), address.host());
  }
  if (error != 0) return connection_failure(error).with_prefix(address.text() + ": ");
  return {};
}

Status TcpDialog::wait(short events, const Deadline& deadline) {
  constexpr int64_t kSliceNs = 20'000'000;
  while (true) {
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) {
      return {KEEL_ABORTED, "cancelled"};
    }
    const int64_t left = deadline.remaining_ns();
    if (deadline.is_cut_off()) return {KEEL_ABORTED, insiders::kCutOff};
    const std::chrono::nanoseconds slice(
        std::min(left, cancelled_ != nullptr ? kSliceNs : deadline.slice_ns()));
    const int ready = poll_until(socket_.get(), events, Deadline::Clock::now() + slice);
    if (ready > 0) return {};
    if (ready < 0) return system_failure(errno, "poll");
    if (ready == 0 && left == 0) return {KEEL_TIMED_OUT, "the other side does not answer"};
  }
}

Status TcpDialog::wait_readable(const Deadline& deadline) {
  return wait(POLLIN, deadline);
}

Status TcpDialog::send(ByteView bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = sockets::send(socket_.get(), bytes.data(), bytes.size());
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      KEEL_RETURN_IF_ERROR(wait(POLLOUT, deadline));
    } else {
      return connection_failure(errno);
    }
  }
  return {};
}

Status TcpDialog::read_exactly(uint8_t* out_bytes, size_t size, const Deadline& deadline) {
  while (size != 0) {
    const ssize_t got = sockets::receive(socket_.get(), out_bytes, size);
    if (got > 0) {
      out_bytes += got;
      size -= static_cast<size_t>(got);
    } else if (got == 0) {
      return connection_failure(0);
    } else if (errno == EAGAIN) {
      KEEL_RETURN_IF_ERROR(wait(POLLIN, deadline));
    } else {
      return connection_failure(errno);
    }
  }
  return {};
}

Status TcpDialog::receive(size_t limit, const Deadline& deadline, Bytes* out_message) {
  std::array<uint8_t, kMessageHeader> header;
  KEEL_RETURN_IF_ERROR(read_exactly(header.data(), header.size(), deadline));
  size_t size = 0;
  KEEL_RETURN_IF_ERROR(message_size(header, limit, &size));
  out_message->assign(header.begin(), header.end());
  out_message->resize(size);
  return read_exactly(out_message->data() + header.size(), size - header.size(), deadline);
}

}  // namespace keel
