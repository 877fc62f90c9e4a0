// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/unix_socket.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/ipc/poll.h"
#include "collectives/bootstrap/system_failure.h"

namespace keel {

namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_NONBLOCK;

Status make_address(const std::string& name, SocketAddress* out_address) {
  *out_address = SocketAddress::named(name);
  if (out_address->size() != 0) return {};
  return failure(KEEL_INVALID_ARGUMENT, "a socket's name has 1 to {} bytes, not {}",
                 SocketAddress::kMostName, name.size());
}

Status socket_in_use(const std::string& name, const SocketAddress& address) {
  Peer peer;
  FileDescriptor probe;
  if (sockets::connect(address, kSocketType, &probe) == 0 &&
      sockets::peer_of(probe.get(), &peer) == 0) {
    return failure(KEEL_ALREADY_EXISTS, "process {} of uid {} listens at '{}' already", peer.pid,
                   peer.uid, name);
  }
  return failure(KEEL_ALREADY_EXISTS, "some process listens at '{}' already", name);
}

}  // namespace

Status listen_at(const std::string& name, FileDescriptor* out_socket) {
  SocketAddress address;
  KEEL_RETURN_IF_ERROR(make_address(name, &address));
  const int error = sockets::listen(address, kSocketType, out_socket);
  if (error == EADDRINUSE) return socket_in_use(name, address);
  return error == 0 ? Status() : system_failure(error, fmt::format("listening at '{}'", name));
}

Status connect_to(const std::string& name, Absence absence, const Deadline& deadline,
                  FileDescriptor* out_socket, Peer* out_peer) {
  constexpr auto kFirstPause = std::chrono::microseconds(100);
  constexpr auto kLastPause = std::chrono::microseconds(10'000);
  SocketAddress address;
  KEEL_RETURN_IF_ERROR(make_address(name, &address));
  auto pause = kFirstPause;
  while (true) {
    FileDescriptor connecting;
    const int error = sockets::connect(address, kSocketType, &connecting);
    if (error == 0) {
      if (const int unknown = sockets::peer_of(connecting.get(), out_peer)) {
        return system_failure(unknown, "SO_PEERCRED");
      }
      if (out_peer->uid != geteuid()) {
        return failure(KEEL_PERMISSION_DENIED,
                       "process {}, which listens at '{}', belongs to uid {}, not {}",
                       out_peer->pid, name, out_peer->uid, geteuid());
      }
      *out_socket = std::move(connecting);
      return {};
    }
    const bool is_absent = error == ECONNREFUSED;
    if (is_absent && absence == Absence::kFails) {
      return failure(KEEL_NOT_FOUND, "no process listens at '{}'", name);
    }
    if (!is_absent && error != EAGAIN) {  // EAGAIN: the listen queue is full
      return system_failure(error, fmt::format("connect to '{}'", name));
    }
    const int64_t left = deadline.remaining_ns();
    if (left == 0) {
      return failure(KEEL_TIMED_OUT, "{} at '{}'",
                     is_absent ? "no process listens" : "nobody is let in", name);
    }
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(pause, std::chrono::nanoseconds(left)));
    pause = std::min(2 * pause, kLastPause);
  }
}

Status send_packet(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors) {
  if (bytes.size() > kMaxPacket || descriptors.size() > sockets::kMostDescriptors) {
    return failure(KEEL_INTERNAL, "a packet of {} bytes and {} descriptors is too large",
                   bytes.size(), descriptors.size());
  }
  const iovec part = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  if (sockets::send_packet(socket, {&part, 1}, descriptors, MSG_DONTWAIT) >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
    return failure(KEEL_ABORTED, "the peer has gone");
  }
  if (errno == EAGAIN) return failure(KEEL_ABORTED, "the peer does not read");
  return system_failure(errno, "sendmsg");
}

Status receive_packet(int socket, Packet* out_packet) {
  std::array<uint8_t, kMaxPacket> bytes;
  const iovec part = {bytes.data(), bytes.size()};
  Packet packet;
  int flags = 0;
  const auto take = [&] {
    return sockets::receive_packet(socket, {&part, 1}, &packet.descriptors, &flags, MSG_DONTWAIT);
  };
  ssize_t got = take();
  // A peer's last packet may follow the first sign of its end. A peer that closes with unread data
  // leaves a reset in front of its packet. And the kernel checks for a packet before it checks for
  // a close (__unix_dgram_recvmsg): a peer that sends and closes in between, 1 in 30,000 on two
  // cores, looks closed without a packet. So read once more.
  const bool seems_gone = got == 0 || (got < 0 && errno == ECONNRESET);
  if (seems_gone) got = take();
  if (got < 0) {
    if (errno == EAGAIN && !seems_gone) return Status::not_ready();
    if (errno == EAGAIN || errno == ECONNRESET) return failure(KEEL_ABORTED, "the peer has gone");
    return system_failure(errno, "recvmsg");
  }
  if (packet.descriptors.size() > sockets::kMostDescriptors) {
    return failure(KEEL_DATA_LOSS, "a packet has more than {} descriptors",
                   sockets::kMostDescriptors);
  }
  // There was room, so the process's limit was reached.
  if ((flags & MSG_CTRUNC) != 0) return system_failure(EMFILE, "receiving a descriptor");
  if ((flags & MSG_TRUNC) != 0) {
    return failure(KEEL_DATA_LOSS, "a packet has more than {} bytes", kMaxPacket);
  }
  if (got == 0) return failure(KEEL_ABORTED, "the peer has gone");
  packet.bytes.assign(bytes.begin(), bytes.begin() + got);
  *out_packet = std::move(packet);
  return {};
}

bool wait_until_readable(int socket, const Deadline& deadline) {
  while (true) {
    const auto slice = std::chrono::nanoseconds(deadline.slice_ns());
    if (poll_until(socket, POLLIN, Deadline::Clock::now() + slice) != 0) return true;
    if (deadline.passed()) return false;
  }
}

Status receive_packet(int socket, const Deadline& deadline, Packet* out_packet) {
  while (true) {
    const Status received = receive_packet(socket, out_packet);
    if (received.ok() || received.failed()) return received;
    if (!wait_until_readable(socket, deadline)) {
      return failure(KEEL_TIMED_OUT, "the peer does not answer");
    }
  }
}

}  // namespace keel
