// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "collectives/bootstrap/system_failure.h"

namespace keel {

namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct Address {
  sockaddr_un value = {};
  socklen_t size = 0;
};

Status make_address(const std::string& name, Address* out_address) {
  if (name.empty() || name.size() >= sizeof(out_address->value.sun_path)) {
    return failure(KEEL_INVALID_ARGUMENT, "a socket's name has 1 to {} bytes, not {}",
                   sizeof(out_address->value.sun_path) - 1, name.size());
  }
  out_address->value.sun_family = AF_UNIX;
  // The leading zero byte selects the abstract namespace.
  std::memcpy(out_address->value.sun_path + 1, name.data(), name.size());
  out_address->size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return {};
}

// Returns the errno of connecting to |address|; 0 on success.
int try_to_connect(int socket, const Address& address) {
  while (connect(socket, reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Status socket_in_use(const std::string& name, const Address& address) {
  Peer peer;
  const FileDescriptor probe(socket(AF_UNIX, kSocketType, 0));
  if (probe && try_to_connect(probe.get(), address) == 0 && peer_of(probe.get(), &peer).ok()) {
    return failure(KEEL_ALREADY_EXISTS, "process {} of uid {} listens at '{}' already", peer.pid,
                   peer.uid, name);
  }
  return failure(KEEL_ALREADY_EXISTS, "some process listens at '{}' already", name);
}

// Takes ownership of the descriptors in |message|; returns whether the kernel left some out.
bool take_descriptors(msghdr& message, std::vector<FileDescriptor>& descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return (message.msg_flags & MSG_CTRUNC) != 0;
}

}  // namespace

Status peer_of(int socket, Peer* out_peer) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return system_failure(errno, "SO_PEERCRED");
  }
  *out_peer = {credentials.pid, credentials.uid};
  return {};
}

Status listen_at(const std::string& name, FileDescriptor* out_socket) {
  Address address;
  KEEL_RETURN_IF_ERROR(make_address(name, &address));
  FileDescriptor listening(socket(AF_UNIX, kSocketType, 0));
  if (!listening) return system_failure(errno, "socket");
  if (bind(listening.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0) {
    if (errno == EADDRINUSE) return socket_in_use(name, address);
    return system_failure(errno, fmt::format("bind to '{}'", name));
  }
  if (listen(listening.get(), static_cast<int>(SOMAXCONN)) != 0) {
    return system_failure(errno, fmt::format("listen at '{}'", name));
  }
  *out_socket = std::move(listening);
  return {};
}

Status connect_to(const std::string& name, Absence absence, const Deadline& deadline,
                  FileDescriptor* out_socket, Peer* out_peer) {
  constexpr auto kFirstPause = std::chrono::microseconds(100);
  constexpr auto kLastPause = std::chrono::microseconds(10'000);
  Address address;
  KEEL_RETURN_IF_ERROR(make_address(name, &address));
  auto pause = kFirstPause;
  while (true) {
    FileDescriptor connecting(socket(AF_UNIX, kSocketType, 0));
    if (!connecting) return system_failure(errno, "socket");
    const int error = try_to_connect(connecting.get(), address);
    if (error == 0) {
      KEEL_RETURN_IF_ERROR(peer_of(connecting.get(), out_peer));
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
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(kMaxPacketDescriptors * sizeof(int))> control{};
  if (bytes.size() > kMaxPacket || descriptors.size() > kMaxPacketDescriptors) {
    return failure(KEEL_INTERNAL, "a packet of {} bytes and {} descriptors is too large",
                   bytes.size(), descriptors.size());
  }
  iovec part = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      return failure(KEEL_ABORTED, "the peer has gone");
    }
    if (errno == EAGAIN) return failure(KEEL_ABORTED, "the peer does not read");
    return system_failure(errno, "sendmsg");
  }
  return {};
}

Status receive_packet(int socket, Packet* out_packet) {
  std::array<uint8_t, kMaxPacket> bytes;
  // Room for one more than allowed: excess descriptors are noticed and closed.
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE((kMaxPacketDescriptors + 1) * sizeof(int))>
      control;
  iovec part = {bytes.data(), bytes.size()};
  msghdr message = {};
  const auto take = [&] {
    ssize_t got = 0;
    do {
      message = {};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got;
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
  Packet packet;
  const bool some_left_out = take_descriptors(message, packet.descriptors);
  if (packet.descriptors.size() > kMaxPacketDescriptors) {
    return failure(KEEL_DATA_LOSS, "a packet has more than {} descriptors", kMaxPacketDescriptors);
  }
  // |control| had room, so the process's limit was reached.
  if (some_left_out) return system_failure(EMFILE, "receiving a descriptor");
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return failure(KEEL_DATA_LOSS, "a packet has more than {} bytes", kMaxPacket);
  }
  if (got == 0) return failure(KEEL_ABORTED, "the peer has gone");
  packet.bytes.assign(bytes.begin(), bytes.begin() + got);
  *out_packet = std::move(packet);
  return {};
}

bool wait_until_readable(int socket, const Deadline& deadline) {
  while (true) {
    const int64_t slice = deadline.slice_ns();
    const timespec timeout = {slice / 1'000'000'000, slice % 1'000'000'000};
    pollfd poll = {socket, POLLIN, 0};
    const int ready = ppoll(&poll, 1, &timeout, nullptr);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
    if (ready == 0 && deadline.passed()) return false;
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
