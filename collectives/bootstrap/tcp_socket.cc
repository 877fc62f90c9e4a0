// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "collectives/bootstrap/system_failure.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

bool parse_number(std::string_view text, uint32_t most, uint32_t* out_number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out_number);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == end && *out_number <= most;
}

Status set_option(int socket, int level, int option, int value, const char* name) {
  if (setsockopt(socket, level, option, &value, sizeof(value)) == 0) return {};
  return system_failure(errno, name);
}

bool is_link_local(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return false;
}

// Connecting a UDP socket sends nothing, but chooses the source address by the routes.
bool default_route_address(int family, const char* target, TcpAddress* out_address) {
  TcpAddress far;
  if (!TcpAddress::parse(target, &far).ok()) return false;
  const FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), far.get(), far.size()) != 0) return false;
  if (!own_address(socket.get(), out_address).ok()) return false;
  out_address->set_port(0);
  return !out_address->is_loopback();
}

Status port_range(uint32_t* out_first, uint32_t* out_last) {
  constexpr uint32_t kLast = 65535;
  const char* const text = trusted_environment("KEEL_PORTS");
  *out_first = 0;
  *out_last = 0;
  if (text == nullptr || *text == '\0') return {};
  const std::string_view range = text;
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos || !parse_number(range.substr(0, dash), kLast, out_first) ||
      !parse_number(range.substr(dash + 1), kLast, out_last) || *out_first == 0 ||
      *out_first > *out_last) {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_PORTS is '{}': FIRST-LAST, from 1 to {}",
                   range.substr(0, 64), kLast);
  }
  return {};
}

}  // namespace

TcpAddress::TcpAddress(const sockaddr* address, socklen_t size)
    : size_(std::min<socklen_t>(size, sizeof(storage_))) {
  std::memcpy(&storage_, address, size_);
}

Status TcpAddress::parse(const std::string& text, TcpAddress* out_address) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool is_six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_six) host = host.substr(1, host.size() - 2);
  in_addr four = {};
  in6_addr six = {};
  const bool is_known = is_six ? inet_pton(AF_INET6, host.c_str(), &six) == 1
                               : inet_pton(AF_INET, host.c_str(), &four) == 1;
  if (!is_known || !parse_number(std::string_view(text).substr(colon + 1), 65535, &port)) {
    return failure(KEEL_INVALID_ARGUMENT, "'{}' is no address and port, such as 10.0.0.1:4711",
                   std::string_view(text).substr(0, 80));
  }
  if (is_six) {
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = six;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    *out_address = TcpAddress(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } else {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr = four;
    address.sin_port = htons(static_cast<uint16_t>(port));
    *out_address = TcpAddress(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  return {};
}

std::string TcpAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, text.data(),
              text.size());
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text.data(),
              text.size());
  }
  return text.data();
}

std::string TcpAddress::text() const {
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port())
                              : fmt::format("{}:{}", host(), port());
}

uint16_t TcpAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

void TcpAddress::set_port(uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
  }
}

bool TcpAddress::is_loopback() const {
  if (family() == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  const auto& four = reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr;
  return (ntohl(four.s_addr) >> 24) == 127;
}

Status resolve(const std::string& host, uint16_t port, std::vector<TcpAddress>* out_addresses) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (error != 0) {
    return failure(KEEL_NOT_FOUND, "the host '{}' does not resolve to an address: {}",
                   std::string_view(host).substr(0, 255), gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  out_addresses->clear();
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    out_addresses->emplace_back(each->ai_addr, each->ai_addrlen);
    out_addresses->back().set_port(port);
  }
  if (!out_addresses->empty()) return {};
  return failure(KEEL_NOT_FOUND, "the host '{}' has no IPv4 or IPv6 address", host);
}

bool names_loopback(const std::string& host) {
  TcpAddress parsed;
  return host == "localhost" || TcpAddress::parse(fmt::format("{}:0", host), &parsed).ok() ||
         TcpAddress::parse(fmt::format("[{}]:0", host), &parsed).ok();
}

Status interface_address(const std::string& name, TcpAddress* out_address) {
  // Addresses for documentation (RFC 5737, RFC 3849), which the default route covers.
  if (name.empty() && (default_route_address(AF_INET, "192.0.2.1:9", out_address) ||
                       default_route_address(AF_INET6, "[2001:db8::1]:9", out_address))) {
    return {};
  }
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return system_failure(errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & IFF_UP) == 0 || is_link_local(each->ifa_addr)) continue;
      if (name.empty() ? (each->ifa_flags & IFF_LOOPBACK) != 0 : name != each->ifa_name) continue;
      *out_address = TcpAddress(each->ifa_addr,
                                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      out_address->set_port(0);
      return {};
    }
  }
  if (name.empty()) return failure(KEEL_NOT_FOUND, "no network interface has an address");
  return failure(KEEL_NOT_FOUND, "the network interface '{}' has no address, or does not exist",
                 name);
}

Status silence_ms(uint32_t* out_ms) {
  constexpr uint32_t kDefault = 1800;
  constexpr uint32_t kLeast = 500;
  constexpr uint32_t kMost = 3'600'000;
  *out_ms = kDefault;
  const char* const text = trusted_environment("KEEL_TCP_SILENCE_MS");
  if (text == nullptr || *text == '\0') return {};
  if (parse_number(text, kMost, out_ms) && *out_ms >= kLeast) return {};
  return failure(KEEL_INVALID_ARGUMENT, "KEEL_TCP_SILENCE_MS is '{}': {} to {}",
                 std::string_view(text).substr(0, 64), kLeast, kMost);
}

Status set_options(int socket, uint32_t silence) {
  // Probes every second. With TCP_USER_TIMEOUT the kernel ignores the number of probes.
  KEEL_RETURN_IF_ERROR(set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  KEEL_RETURN_IF_ERROR(set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  KEEL_RETURN_IF_ERROR(set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1, "TCP_KEEPIDLE"));
  KEEL_RETURN_IF_ERROR(set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1, "TCP_KEEPINTVL"));
  return set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence),
                    "TCP_USER_TIMEOUT");
}

Status listen_tcp(const TcpAddress& address, FileDescriptor* out_socket, TcpAddress* out_bound) {
  uint32_t first = address.port();
  uint32_t last = first;
  if (first == 0) KEEL_RETURN_IF_ERROR(port_range(&first, &last));
  Status status;
  for (uint32_t port = first; port <= last; ++port) {
    TcpAddress wanted = address;
    wanted.set_port(static_cast<uint16_t>(port));
    FileDescriptor socket(::socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return system_failure(errno, "a TCP socket");
    // A port of an ended job stays taken for a minute otherwise. A listener keeps it taken.
    KEEL_RETURN_IF_ERROR(set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
    if (wanted.family() == AF_INET6) {
      KEEL_RETURN_IF_ERROR(set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"));
    }
    constexpr int kBacklog = 4096;
    if (bind(socket.get(), wanted.get(), wanted.size()) == 0 &&
        listen(socket.get(), kBacklog) == 0) {
      KEEL_RETURN_IF_ERROR(own_address(socket.get(), out_bound));
      *out_socket = std::move(socket);
      return {};
    }
    const int error = errno;
    if (error == EADDRNOTAVAIL) {
      return failure(KEEL_NOT_FOUND, "{} is no address of this host", wanted.host());
    }
    status = error == EADDRINUSE
                 ? failure(KEEL_ALREADY_EXISTS, "the port of {} is taken by another process",
                           wanted.text())
                 : system_failure(error, fmt::format("listening at {}", wanted.text()));
    if (error != EADDRINUSE) break;
  }
  return status;
}

Status own_address(int socket, TcpAddress* out_address) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(socket, address, &size) != 0) return system_failure(errno, "getsockname");
  *out_address = TcpAddress(address, size);
  return {};
}

Status peer_address(int socket, TcpAddress* out_address) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getpeername(socket, address, &size) != 0) return system_failure(errno, "getpeername");
  *out_address = TcpAddress(address, size);
  return {};
}

Status connection_failure(int error) {
  switch (error) {
    case 0:
    case ECONNRESET:
    case EPIPE:
      return failure(KEEL_RANK_FAILED, "the connection was closed by the other side");
    case ETIMEDOUT:
      return failure(KEEL_RANK_FAILED,
                     "the other host does not acknowledge, and the kernel ended the connection "
                     "(KEEL_TCP_SILENCE_MS)");
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case ECONNABORTED:
      return failure(KEEL_RANK_FAILED, "the other host cannot be reached: {}",
                     std::strerror(error));
    default:
      return system_failure(error, "a TCP connection");
  }
}

}  // namespace keel
