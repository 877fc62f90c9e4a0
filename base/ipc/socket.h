// SPDX-License-Identifier: Apache-2.0
// The socket calls of Keel. Bootstrap, wires, conformance, benchmarks and the emulated chip build
// their protocols on these functions.
#ifndef KEEL_BASE_IPC_SOCKET_H_
#define KEEL_BASE_IPC_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ipc/file_descriptor.h"
#include "base/ipc/socket_address.h"

// All sockets are close-on-exec. |type| is SOCK_STREAM, SOCK_SEQPACKET or SOCK_DGRAM, with
// SOCK_NONBLOCK for calls that never block. A call that a signal interrupts is repeated, and a
// write to an ended peer raises no SIGPIPE. An int result is 0 or an errno; an ssize_t result is a
// number of bytes, or -1 and errno, as the system call returns it.
namespace keel::sockets {

int open(int family, int type, FileDescriptor* out_socket);
// Two connected sockets of the family AF_UNIX.
int open_pair(int type, FileDescriptor* out_one, FileDescriptor* out_other);

// Listens at |address|, with port 0 at a free port. Reuses a port whose connections have ended
// less than a minute ago; an IPv6 address does not stand for IPv4 too.
int listen(const SocketAddress& address, int type, FileDescriptor* out_socket);
// |type|: SOCK_NONBLOCK or 0. A connection that was closed before its turn is skipped.
int accept(int listening, int type, FileDescriptor* out_socket);
// Whether accept() failed with |error| for lack of descriptors or memory: the connection is still
// in the queue.
bool is_shortage(int error);
// Sets the address that |socket| connects from, with port 0 from a port that connect() chooses.
int bind(int socket, const SocketAddress& address);
// EINPROGRESS on a non-blocking TCP socket: wait for POLLOUT, then ask pending_error().
int connect(int socket, const SocketAddress& address);
int pending_error(int socket);
// Opens a socket and connects it. No socket unless the result is 0.
int connect(const SocketAddress& address, int type, FileDescriptor* out_socket);
int own_address(int socket, SocketAddress* out_address);

// The process at the other end of an AF_UNIX socket, according to the kernel. |pid| is 0 for a
// process in a pid namespace that is not visible from this process.
struct Peer {
  int64_t pid = 0;
  uint32_t uid = 0;
};
int peer_of(int socket, Peer* out_peer);

template <typename T>
int get_option(int socket, int level, int option, T* out_value) {
  socklen_t size = sizeof(*out_value);
  return ::getsockopt(socket, level, option, out_value, &size) == 0 ? 0 : errno;
}
inline int set_option(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof(value)) == 0 ? 0 : errno;
}

// From now on, closing |socket| resets its TCP connection at once and drops what is not sent yet.
int reset_at_close(int socket);

// Calls |call| until no signal interrupts it.
template <typename Call>
inline ssize_t repeat(const Call& call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

inline msghdr message_of(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

// Send or receive what the socket takes or has, in |parts| in order or in one range. |flags|: of
// the system call, such as MSG_DONTWAIT. Inline, as the data path of wires.
inline ssize_t send(int socket, std::span<const iovec> parts, int flags = 0) {
  const msghdr message = message_of(parts);
  return repeat([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL | flags); });
}
inline ssize_t receive(int socket, std::span<const iovec> parts, int flags = 0) {
  msghdr message = message_of(parts);
  return repeat([&] { return ::recvmsg(socket, &message, flags); });
}
inline ssize_t send(int socket, const void* data, size_t size, int flags = 0) {
  return repeat([&] { return ::send(socket, data, size, MSG_NOSIGNAL | flags); });
}
inline ssize_t receive(int socket, void* out_data, size_t size, int flags = 0) {
  return repeat([&] { return ::recv(socket, out_data, size, flags); });
}

// For blocking stream sockets: return false, with errno, unless all |size| bytes were moved. errno
// is 0 where the peer closed.
bool send_all(int socket, const void* data, size_t size);
bool receive_all(int socket, void* out_data, size_t size);

// As send() and receive(), with descriptors, over AF_UNIX sockets. The caller of send_packet()
// keeps |descriptors|, at most kMostDescriptors. receive_packet() replaces |*out_descriptors|, of
// which a malicious peer may have sent one more, and sets |*out_flags|: MSG_TRUNC for a packet
// longer than |parts|, MSG_CTRUNC for descriptors that this process could not take.
inline constexpr size_t kMostDescriptors = 4;
ssize_t send_packet(int socket, std::span<const iovec> parts, std::span<const int> descriptors,
                    int flags = 0);
ssize_t receive_packet(int socket, std::span<const iovec> parts,
                       std::vector<FileDescriptor>* out_descriptors, int* out_flags, int flags = 0);

}  // namespace keel::sockets

#endif  // KEEL_BASE_IPC_SOCKET_H_
