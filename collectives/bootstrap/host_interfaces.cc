// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_interfaces.h"

#include <fmt/ranges.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "collectives/bootstrap/launcher_environment.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "core/log.h"
#include "core/nic_distances.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

bool has_address(const HostInterface& interface, const SocketAddress& wanted) {
  return std::any_of(interface.addresses.begin(), interface.addresses.end(),
                     [&](const SocketAddress& each) {
                       return each.family() == wanted.family() && each.host() == wanted.host();
                     });
}

// The name of the interface that has |address|, or empty.
std::string name_of(const SocketAddress& address, const std::vector<HostInterface>& interfaces) {
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const auto& each) { return has_address(each, address); });
  return found == interfaces.end() ? std::string() : found->name;
}

ChosenInterface by_route(const SocketAddress& route, const std::vector<HostInterface>& interfaces) {
  ChosenInterface chosen;
  chosen.address = route;
  chosen.address.set_port(0);
  chosen.name = name_of(route, interfaces);
  return chosen;
}

struct Candidate {
  HostInterface interface;
  SocketAddress address;
};

// An address of the family of |route|: |route| itself, which has reached the server, or the first.
std::optional<SocketAddress> address_of(const HostInterface& interface,
                                        const SocketAddress& route) {
  std::optional<SocketAddress> first;
  for (const SocketAddress& each : interface.addresses) {
    if (each.family() != route.family()) continue;
    if (each.host() == route.host()) return each;
    if (!first) first = each;
  }
  return first;
}

// Finds what an entry of a list names. Returns why it is of no use, or an empty text.
std::string find_named(const std::string& entry, const SocketAddress& route,
                       const std::vector<HostInterface>& interfaces, Candidate* out_candidate) {
  const int family = route.family();
  SocketAddress address;
  if (SocketAddress::parse(entry + ":0", &address) ||
      SocketAddress::parse("[" + entry + "]:0", &address)) {
    if (address.family() != family) return entry + " is not of the family of the server's address";
    out_candidate->address = address;
    const auto owner = std::find_if(interfaces.begin(), interfaces.end(),
                                    [&](const auto& each) { return has_address(each, address); });
    if (owner != interfaces.end()) {
      out_candidate->interface = *owner;
      return owner->is_up ? "" : entry + " is down";
    }
    // The whole loopback network belongs to this host, and is not listed.
    return address.is_loopback() ? "" : "no interface has " + entry;
  }
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const auto& each) { return each.name == entry; });
  if (found == interfaces.end()) return entry + " does not exist";
  if (!found->is_up) return entry + " is down";
  const auto own = address_of(*found, route);
  if (!own) {
    return fmt::format("{} has no {} address", entry, family == AF_INET6 ? "IPv6" : "IPv4");
  }
  *out_candidate = {*found, *own};
  return {};
}

std::vector<Candidate> physical_candidates(const SocketAddress& route,
                                           const std::vector<HostInterface>& interfaces) {
  std::vector<Candidate> found;
  for (const HostInterface& each : interfaces) {
    const auto address = address_of(each, route);
    if (each.is_physical && each.is_up && address && !address->is_loopback()) {
      found.push_back({each, *address});
    }
  }
  return found;
}

size_t rank_of(const std::string& distance) {
  constexpr std::array<std::string_view, 5> kNearestFirst = {
      "same_chip", "same_switch", "same_host_bridge", "same_numa_node", "across_numa_nodes"};
  return static_cast<size_t>(std::find(kNearestFirst.begin(), kNearestFirst.end(), distance) -
                             kNearestFirst.begin());
}

// Local rank of a launcher that has started several processes here; else the ranks of a job without
// one, or of one process, take turns by number.
uint32_t turn_of(const PeerInfo& self) {
  auto launch = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  std::string name;
  const bool is_launched = read_launcher(&launch, &name).ok() && launch.local_world > 1;
  return is_launched ? launch.local_rank : self.rank;
}

}  // namespace

std::string interface_setting() {
  const char* const chosen = trusted_environment("KEEL_INTERFACE");
  return chosen == nullptr ? "" : chosen;
}

const char* ChosenInterface::reason_name() const {
  switch (reason) {
    case Reason::kNamed:
      return "named";
    case Reason::kNearest:
      return "nearest";
    case Reason::kLocalRank:
      return "local_rank";
    default:
      return "route";
  }
}

std::vector<std::string> named_interfaces(const std::string& setting) {
  std::vector<std::string> names;
  if (setting.empty() || setting == kNearestInterface) return names;
  // Names have no blanks, so that "ib0, ib1" is a list of two as well.
  constexpr const char* kBetween = ", \t";
  size_t begin = setting.find_first_not_of(kBetween);
  while (begin != std::string::npos) {
    const size_t end = std::min(setting.find_first_of(kBetween, begin), setting.size());
    names.push_back(setting.substr(begin, end - begin));
    begin = setting.find_first_not_of(kBetween, end);
  }
  return names;
}

Status choose_interface(const InterfaceQuery& query, const std::vector<HostInterface>& interfaces,
                        const MeasureInterfaces& measure, ChosenInterface* out_chosen,
                        std::string* out_unusable) {
  const bool is_named = query.setting != kNearestInterface;
  out_unusable->clear();
  std::vector<Candidate> candidates;
  if (is_named) {
    std::vector<std::string> unusable;
    for (const std::string& entry : named_interfaces(query.setting)) {
      Candidate candidate;
      std::string why = find_named(entry, query.route, interfaces, &candidate);
      if (why.empty()) {
        candidates.push_back(std::move(candidate));
      } else {
        unusable.push_back(std::move(why));
      }
    }
    *out_unusable = fmt::format("{}", fmt::join(unusable, ", "));
    if (candidates.empty()) {
      return failure(KEEL_NOT_FOUND, "KEEL_INTERFACE is '{}': {}", query.setting,
                     unusable.empty() ? "it names no interface" : *out_unusable);
    }
  } else if (!query.route.is_loopback()) {
    candidates = physical_candidates(query.route, interfaces);
  }
  if (candidates.empty()) {
    *out_chosen = by_route(query.route, interfaces);
    return {};
  }
  *out_chosen = {};
  std::vector<std::string> distances(1);
  if (candidates.size() > 1) {
    std::vector<HostInterface> measured;
    for (const Candidate& each : candidates) measured.push_back(each.interface);
    distances = measure(measured);
  }
  size_t least = SIZE_MAX;
  for (const std::string& each : distances) least = std::min(least, rank_of(each));
  std::vector<size_t> nearest;
  std::optional<size_t> of_route;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (rank_of(distances[i]) != least) continue;
    nearest.push_back(i);
    if (!is_named && has_address(candidates[i].interface, query.route)) of_route = i;
  }
  const size_t index = of_route.value_or(nearest[query.turn % nearest.size()]);
  out_chosen->name = candidates[index].interface.name;
  out_chosen->address = candidates[index].address;
  if (nearest.size() > 1) {
    out_chosen->reason =
        of_route ? ChosenInterface::Reason::kRoute : ChosenInterface::Reason::kLocalRank;
  } else {
    const bool is_only = is_named && candidates.size() == 1;
    out_chosen->reason =
        is_only ? ChosenInterface::Reason::kNamed : ChosenInterface::Reason::kNearest;
  }
  out_chosen->distance = distances[index];
  return {};
}

Status find_interface(const SocketAddress& route, const PeerInfo& self,
                      ChosenInterface* out_chosen) {
  const std::string setting = interface_setting();
  const std::vector<HostInterface> interfaces = list_interfaces();
  if (setting.empty()) {
    *out_chosen = by_route(route, interfaces);
    return {};
  }
  if (setting != kNearestInterface && setting.find(',') == std::string::npos) {
    *out_chosen = {};
    out_chosen->reason = ChosenInterface::Reason::kNamed;
    if (!interface_address(setting, &out_chosen->address).ok()) {
      std::vector<SocketAddress> found;
      KEEL_RETURN_IF_ERROR(resolve(setting, 0, &found).with_prefix("KEEL_INTERFACE: "));
      out_chosen->address = found[0];
    }
    out_chosen->name = name_of(out_chosen->address, interfaces);
    return {};
  }
  const auto measure = [&](const std::vector<HostInterface>& candidates) {
    std::vector<Nic> nics;
    for (const HostInterface& each : candidates) nics.push_back({each.name, each.numa_node});
    const auto device = self.chip.id.pci_address();
    return nic_distances(device ? device->text() : std::string(), nics);
  };
  std::string unusable;
  KEEL_RETURN_IF_ERROR(choose_interface({setting, route, turn_of(self)}, interfaces, measure,
                                        out_chosen, &unusable));
  if (!unusable.empty()) {
    log(KEEL_LOG_WARNING, "KEEL_INTERFACE is '{}', and rank {} uses {}: {}", setting, self.rank,
        out_chosen->name.empty() ? out_chosen->address.host() : out_chosen->name, unusable);
  }
  return {};
}

}  // namespace keel
