// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_id.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/tcp_socket.h"

namespace keel {

namespace {

constexpr std::string_view kPrefix = "keel-1:tcp:";
constexpr size_t kDigits = 32;

bool read_hex(std::string_view text, ProcessToken* out_token) {
  constexpr std::string_view kHex = "0123456789abcdef";
  if (text.size() != kDigits) return false;
  for (size_t i = 0; i < kDigits; i += 2) {
    const size_t high = kHex.find(text[i]);
    const size_t low = kHex.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    out_token->bytes[i / 2] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

}  // namespace

Status TcpId::parse(const keel_unique_id& id, TcpId* out_id) {
  const std::string_view text(id.text, strnlen(id.text, sizeof(id.text)));
  const std::string_view rest = text.substr(std::min(text.size(), kPrefix.size()));
  const size_t colon = rest.rfind(':');
  SocketAddress address;
  TcpId parsed;
  if (text.size() == sizeof(id.text) || !text.starts_with(kPrefix) ||
      colon == std::string_view::npos || !read_hex(rest.substr(colon + 1), &parsed.job) ||
      !SocketAddress::parse(rest.substr(0, colon), &address) ||
      address.text() != rest.substr(0, colon) || address.port() == 0) {
    std::string shown(text);
    for (char& each : shown) {
      if (!is_printable({&each, 1})) each = '?';
    }
    return failure(KEEL_INVALID_ARGUMENT, "id is '{}', not {}HOST:PORT:<32 digits>", shown,
                   kPrefix);
  }
  parsed.host = address.host();
  parsed.port = address.port();
  *out_id = std::move(parsed);
  return {};
}

keel_unique_id TcpId::id() const {
  const bool is_six = host.find(':') != std::string::npos;
  const std::string text = fmt::format("{}{}{}{}:{}:{}", kPrefix, is_six ? "[" : "", host,
                                       is_six ? "]" : "", port, job.hex());
  keel_unique_id id = {};
  // 11 + 41 (an IPv6 address in brackets, without a scope) + 7 + 32 bytes at most.
  std::memcpy(id.text, text.data(), std::min(text.size(), sizeof(id.text) - 1));
  return id;
}

}  // namespace keel
