// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
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
  const int error = sockets::set_option(socket, level, option, value);
  return error == 0 ? Status() : system_failure(error, name);
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

Status parse_address(const std::string& text, SocketAddress* out_address) {
  if (SocketAddress::parse(text, out_address)) return {};
  return failure(KEEL_INVALID_ARGUMENT, "'{}' is no address and port, such as 10.0.0.1:4711",
                 std::string_view(text).substr(0, 80));
}

Status resolve(const std::string& host, uint16_t port, std::vector<SocketAddress>* out_addresses) {
  const std::string why = SocketAddress::resolve(host, port, out_addresses);
  if (why.empty()) return {};
  return failure(KEEL_NOT_FOUND, "the host '{}' {}", std::string_view(host).substr(0, 255), why);
}

bool names_loopback(const std::string& host) {
  SocketAddress parsed;
  return host == "localhost" || SocketAddress::parse(host + ":0", &parsed) ||
         SocketAddress::parse("[" + host + "]:0", &parsed);
}

Status interface_address(const std::string& name, SocketAddress* out_address) {
  const int error = SocketAddress::of_interface(name, out_address);
  if (error == 0) return {};
  if (error != ENODEV) return system_failure(error, "getifaddrs");
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

int64_t silence_ns() {
  uint32_t limit = 0;
  return silence_ms(&limit).ok() ? limit * int64_t{1'000'000} : 0;
}

Status set_options(int socket, uint32_t silence) {
  // With a tenth of all packets lost, nine probes and their answers are all lost once in 3 million
  // times.
  constexpr uint32_t kProbes = 9;
  const auto interval = static_cast<int>(std::max(1u, silence / 1000 / kProbes));
  KEEL_RETURN_IF_ERROR(set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  KEEL_RETURN_IF_ERROR(set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  KEEL_RETURN_IF_ERROR(set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1, "TCP_KEEPIDLE"));
  KEEL_RETURN_IF_ERROR(set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval, "TCP_KEEPINTVL"));
  return set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes, "TCP_KEEPCNT");
}

Status set_connect_limit(int socket, uint32_t ms) {
  return set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ms),
                    "TCP_USER_TIMEOUT");
}

Status listen_tcp(const SocketAddress& address, FileDescriptor* out_socket,
                  SocketAddress* out_bound) {
  uint32_t first = address.port();
  uint32_t last = first;
  if (first == 0) KEEL_RETURN_IF_ERROR(port_range(&first, &last));
  SocketAddress wanted = address;
  int error = 0;
  for (uint32_t port = first; port <= last; ++port) {
    wanted.set_port(static_cast<uint16_t>(port));
    error = sockets::listen(wanted, SOCK_STREAM | SOCK_NONBLOCK, out_socket);
    if (error == 0) return own_address(out_socket->get(), out_bound);
    if (error != EADDRINUSE) break;
  }
  switch (error) {
    case EADDRNOTAVAIL:
      return failure(KEEL_NOT_FOUND, "{} is no address of this host", wanted.host());
    case EADDRINUSE:
      return failure(KEEL_ALREADY_EXISTS, "the port of {} is taken by another process",
                     wanted.text());
    default:
      return system_failure(error, fmt::format("listening at {}", wanted.text()));
  }
}

Status own_address(int socket, SocketAddress* out_address) {
  const int error = sockets::own_address(socket, out_address);
  return error == 0 ? Status() : system_failure(error, "getsockname");
}

Status connection_failure(int error) {
  switch (error) {
    case 0:
    case ECONNRESET:
    case EPIPE:
      return failure(KEEL_RANK_FAILED, "the connection was closed by the other side");
    case ETIMEDOUT:
      return failure(KEEL_RANK_FAILED,
                     "the other host does not acknowledge what was sent (KEEL_TCP_SILENCE_MS)");
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
