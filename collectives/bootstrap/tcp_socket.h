// SPDX-License-Identifier: Apache-2.0
// TCP sockets between hosts: addresses, options, connecting, listening.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TCP_SOCKET_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TCP_SOCKET_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/ipc/file_descriptor.h"
#include "core/status.h"

namespace keel {

// An IPv4 or IPv6 address with a port.
class TcpAddress {
 public:
  TcpAddress() = default;
  TcpAddress(const sockaddr* address, socklen_t size);

  // Reads "10.0.0.1:4711" or "[::1]:4711", numbers alone. KEEL_INVALID_ARGUMENT.
  static Status parse(const std::string& text, TcpAddress* out_address);
  std::string text() const;  // as parse() reads it
  std::string host() const;  // "10.0.0.1" or "::1"
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
};

// The addresses of |host|: a number, or a name that the resolver knows. Blocks as the resolver
// does. KEEL_NOT_FOUND, naming |host|, when it does not resolve.
Status resolve(const std::string& host, uint16_t port, std::vector<TcpAddress>* out_addresses);
// Whether |host| means the loopback interface if it resolves to it: "localhost" and numbers do. Any
// other name is one of this host, which resolves to a loopback address only here (Debian's
// 127.0.1.1), and other hosts reach it by the address of an interface.
bool names_loopback(const std::string& host);
// The address of the interface |name| ("eth0"), IPv4 before IPv6, or with an empty name of the
// interface that has the default route. KEEL_NOT_FOUND.
Status interface_address(const std::string& name, TcpAddress* out_address);

// Time without an acknowledgement after which the kernel ends a connection: KEEL_TCP_SILENCE_MS,
// 1800 unless set. KEEL_INVALID_ARGUMENT, naming the variable, unless 500 to 3600000.
Status silence_ms(uint32_t* out_ms);
// No delay of small segments; keepalive and TCP_USER_TIMEOUT of |silence| ms: a peer whose host
// does not acknowledge is an error of the socket, without a thread here that watches the time. A
// peer that is stopped or busy still acknowledges.
Status set_options(int socket, uint32_t silence);

// Listens at |address|; port 0: a free port, or one of KEEL_PORTS=FIRST-LAST where set.
// KEEL_ALREADY_EXISTS when the port is taken, KEEL_NOT_FOUND for an address of another host.
Status listen_tcp(const TcpAddress& address, FileDescriptor* out_socket, TcpAddress* out_bound);
Status own_address(int socket, TcpAddress* out_address);
Status peer_address(int socket, TcpAddress* out_address);

// Returns the failure of a connection with errno |error|: KEEL_RANK_FAILED for an ended or silent
// one. |error| 0: the peer closed.
Status connection_failure(int error);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TCP_SOCKET_H_
