// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/ipc/socket.h"

namespace keel {

namespace {

// Connecting a UDP socket sends nothing, but chooses the source address by the routes.
bool default_route_address(std::string_view target, SocketAddress* out_address) {
  SocketAddress far;
  FileDescriptor socket;
  if (!SocketAddress::parse(target, &far) || sockets::connect(far, SOCK_DGRAM, &socket) != 0 ||
      sockets::own_address(socket.get(), out_address) != 0) {
    return false;
  }
  out_address->set_port(0);
  return !out_address->is_loopback();
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size)
    : size_(std::min<socklen_t>(size, sizeof(storage_))) {
  std::memcpy(&storage_, address, size_);
}

bool SocketAddress::parse(std::string_view text, SocketAddress* out_address) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string host(text.substr(0, colon));
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &address.sin6_addr) != 1) return false;
    *out_address = SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } else {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return false;
    *out_address = SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  out_address->set_port(port);
  return true;
}

std::string SocketAddress::resolve(const std::string& host, uint16_t port,
                                   std::vector<SocketAddress>* out_addresses) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (error != 0) return std::string("does not resolve to an address: ") + gai_strerror(error);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  out_addresses->clear();
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    out_addresses->emplace_back(each->ai_addr, each->ai_addrlen);
    out_addresses->back().set_port(port);
  }
  return out_addresses->empty() ? "has no IPv4 or IPv6 address" : "";
}

int SocketAddress::of_interface(const std::string& name, SocketAddress* out_address) {
  // Addresses for documentation (RFC 5737, RFC 3849), which the default route covers.
  if (name.empty() && (default_route_address("192.0.2.1:9", out_address) ||
                       default_route_address("[2001:db8::1]:9", out_address))) {
    return 0;
  }
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return errno;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & IFF_UP) == 0) continue;
      if (name.empty() ? (each->ifa_flags & IFF_LOOPBACK) != 0 : name != each->ifa_name) continue;
      SocketAddress address(each->ifa_addr,
                            family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      if (address.is_link_local()) continue;
      address.set_port(0);
      *out_address = address;
      return 0;
    }
  }
  return ENODEV;
}

SocketAddress SocketAddress::named(std::string_view name) {
  sockaddr_un address = {};
  static_assert(sizeof(address.sun_path) == kMostName + 1);
  if (name.empty() || name.size() > kMostName) return {};
  address.sun_family = AF_UNIX;
  // The leading zero byte selects the abstract namespace.
  name.copy(address.sun_path + 1, kMostName);
  return {reinterpret_cast<const sockaddr*>(&address),
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

std::string SocketAddress::text() const {
  const std::string number = host();
  return (family() == AF_INET6 ? "[" + number + "]" : number) + ":" + std::to_string(port());
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const void* const number =
      family() == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr;
  inet_ntop(family(), number, text.data(), text.size());
  return text.data();
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
  }
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  const auto& four = reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr;
  return (ntohl(four.s_addr) >> 24) == 127;
}

}  // namespace keel
