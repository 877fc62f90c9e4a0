// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/host_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <utility>

namespace keel {

namespace {

// IFF_LOWER_UP of linux/if.h, which net/if.h excludes. IFF_RUNNING follows up to a second later.
constexpr unsigned kCarrier = 1 << 16;

// The bytes of an IPv4 or IPv6 address; none of another.
std::span<const uint8_t> bytes_of(const sockaddr* address) {
  if (address == nullptr) return {};  // an interface without one
  if (address->sa_family == AF_INET) {
    const auto* const number = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const uint8_t*>(number), sizeof(*number)};
  }
  if (address->sa_family != AF_INET6) return {};
  const auto* const number = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return {reinterpret_cast<const uint8_t*>(number), sizeof(*number)};
}

}  // namespace

std::vector<HostInterface> list_interfaces(const std::string& sysfs) {
  std::vector<HostInterface> interfaces;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return interfaces;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const std::string name = each->ifa_name;
    auto known = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const auto& other) { return other.name == name; });
    if (known == interfaces.end()) {
      HostInterface added;
      added.name = name;
      const std::string device = std::filesystem::path(sysfs) / name / "device";
      added.is_physical = access(device.c_str(), F_OK) == 0;
      if (!(std::ifstream(device + "/numa_node") >> added.numa_node)) added.numa_node = -1;
      known = interfaces.insert(interfaces.end(), std::move(added));
    }
    known->is_up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & kCarrier) != 0;
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address(each->ifa_addr,
                          family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    address.set_port(0);
    if (!address.is_link_local()) known->addresses.push_back(address);
  }
  return interfaces;
}

bool are_in_one_subnet(const SocketAddress& one, const SocketAddress& other) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const std::span<const uint8_t> own = bytes_of(each->ifa_addr);
    const std::span<const uint8_t> mask = bytes_of(each->ifa_netmask);
    if (own.empty() || mask.size() != own.size()) continue;
    const auto has = [&](const SocketAddress& address) {
      const std::span<const uint8_t> bytes = bytes_of(address.get());
      if (bytes.size() != own.size()) return false;
      for (size_t i = 0; i < own.size(); ++i) {
        if ((bytes[i] & mask[i]) != (own[i] & mask[i])) return false;
      }
      return true;
    };
    if (has(one) && has(other)) return true;
  }
  return false;
}

}  // namespace keel
