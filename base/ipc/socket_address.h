// SPDX-License-Identifier: Apache-2.0
// Addresses of sockets: of hosts, and names on one host.
#ifndef KEEL_BASE_IPC_SOCKET_ADDRESS_H_
#define KEEL_BASE_IPC_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

// An IPv4 or IPv6 address with a port, or a name. Calls refuse an empty address.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t size);

  // Reads "10.0.0.1:4711" or "[::1]:4711", numbers alone. Returns false for any other text.
  static bool parse(std::string_view text, SocketAddress* out_address);
  // The addresses of |host|, a number or a name that the resolver knows, with |port|. Blocks as the
  // resolver does. Returns "", or why there are none: "does not resolve to an address: ...".
  static std::string resolve(const std::string& host, uint16_t port,
                             std::vector<SocketAddress>* out_addresses);
  // The address of the interface |name| ("eth0"), IPv4 before IPv6, or with an empty name of the
  // interface that has the default route; port 0. Returns 0, ENODEV if there is none, or an errno.
  static int of_interface(const std::string& name, SocketAddress* out_address);

  // A name in Linux's abstract namespace: the kernel drops it with the last socket, and no file
  // remains. Processes in different network namespaces do not see each other's names. The address
  // is empty unless |name| has 1 to kMostName bytes.
  static SocketAddress named(std::string_view name);
  static constexpr size_t kMostName = 107;

  std::string text() const;  // as parse() reads it
  std::string host() const;  // "10.0.0.1" or "::1"
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  bool is_link_local() const;  // an IPv6 address that means nothing without its interface
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
};

}  // namespace keel

#endif  // KEEL_BASE_IPC_SOCKET_ADDRESS_H_
