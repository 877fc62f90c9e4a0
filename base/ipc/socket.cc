// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/socket.h"

#include <netinet/in.h>

#include <array>
#include <cstring>
#include <utility>

namespace keel::sockets {

int open(int family, int type, FileDescriptor* out_socket) {
  *out_socket = FileDescriptor(::socket(family, type | SOCK_CLOEXEC, 0));
  return *out_socket ? 0 : errno;
}

int open_pair(int type, FileDescriptor* out_one, FileDescriptor* out_other) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  *out_one = FileDescriptor(ends[0]);
  *out_other = FileDescriptor(ends[1]);
  return 0;
}

int listen(const SocketAddress& address, int type, FileDescriptor* out_socket) {
  constexpr int kBacklog = 4096;
  FileDescriptor socket;
  int error = open(address.family(), type, &socket);
  if (error == 0 && address.family() != AF_UNIX) {
    // A listener keeps its port taken.
    error = set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  }
  if (error == 0 && address.family() == AF_INET6) {
    error = set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  }
  if (error != 0) return error;
  if (::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return errno;
  }
  *out_socket = std::move(socket);
  return 0;
}

int accept(int listening, int type, FileDescriptor* out_socket) {
  do {
    *out_socket = FileDescriptor(::accept4(listening, nullptr, nullptr, type | SOCK_CLOEXEC));
  } while (!*out_socket && (errno == EINTR || errno == ECONNABORTED));
  return *out_socket ? 0 : errno;
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

int bind(int socket, const SocketAddress& address) {
  // The port is then taken towards one peer, not all. Without the option, there are fewer ports.
  if (address.port() == 0) set_option(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  return ::bind(socket, address.get(), address.size()) == 0 ? 0 : errno;
}

int connect(int socket, const SocketAddress& address) {
  if (repeat([&] { return ::connect(socket, address.get(), address.size()); }) == 0) return 0;
  // The first call of a repeated one has begun, or has made, a TCP connection.
  if (errno == EALREADY) return EINPROGRESS;
  return errno == EISCONN ? 0 : errno;
}

int connect(const SocketAddress& address, int type, FileDescriptor* out_socket) {
  int error = open(address.family(), type, out_socket);
  if (error == 0) error = connect(out_socket->get(), address);
  if (error != 0) *out_socket = FileDescriptor();
  return error;
}

int pending_error(int socket) {
  int error = 0;
  const int failed = get_option(socket, SOL_SOCKET, SO_ERROR, &error);
  return failed != 0 ? failed : error;
}

int reset_at_close(int socket) {
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  return ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0 ? 0 : errno;
}

int own_address(int socket, SocketAddress* out_address) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(socket, address, &size) != 0) return errno;
  *out_address = SocketAddress(address, size);
  return 0;
}

int peer_of(int socket, Peer* out_peer) {
  ucred credentials = {};
  const int error = get_option(socket, SOL_SOCKET, SO_PEERCRED, &credentials);
  if (error == 0) *out_peer = {credentials.pid, credentials.uid};
  return error;
}

bool send_all(int socket, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  while (size != 0) {
    const ssize_t sent = send(socket, from, size);
    if (sent < 0) return false;
    from += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* out_data, size_t size) {
  auto* to = static_cast<std::byte*>(out_data);
  while (size != 0) {
    const ssize_t got = receive(socket, to, size);
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

ssize_t send_packet(int socket, std::span<const iovec> parts, std::span<const int> descriptors,
                    int flags) {
  if (descriptors.empty()) return send(socket, parts, flags);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  if (descriptors.size() > kMostDescriptors) {
    errno = EINVAL;
    return -1;
  }
  msghdr message = message_of(parts);
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  return repeat([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL | flags); });
}

ssize_t receive_packet(int socket, std::span<const iovec> parts,
                       std::vector<FileDescriptor>* out_descriptors, int* out_flags, int flags) {
  // Room for one more than allowed: excess descriptors are noticed and closed.
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE((kMostDescriptors + 1) * sizeof(int))> control;
  out_descriptors->clear();
  msghdr message = message_of(parts);
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = repeat([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags); });
  if (got < 0) return got;
  *out_flags = message.msg_flags;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      out_descriptors->emplace_back(fd);
    }
  }
  return got;
}

}  // namespace keel::sockets
