// SPDX-License-Identifier: Apache-2.0
// The server's address from the variables of the launcher.
#include <charconv>
#include <string_view>

#include "collectives/bootstrap/host_bootstrap.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

using Variable = std::function<const char*(const char* name)>;

// Ports that the server may take, in case another program has the first.
constexpr uint32_t kPorts = 8;

bool parse_number(std::string_view text, uint32_t most, uint32_t* out_number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out_number);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == end && *out_number <= most;
}

std::string_view value_of(const Variable& variable, const char* name) {
  const char* const value = variable(name);
  return value == nullptr ? std::string_view() : value;
}

void add_ports(uint32_t first, HostServerAddress* out_address) {
  for (uint32_t port = first; port < first + kPorts && port <= 65535; ++port) {
    out_address->ports.push_back(static_cast<uint16_t>(port));
  }
}

// "host:4711", "10.0.0.1:4711", "[::1]:4711".
Status read_given(std::string_view text, HostServerAddress* out_address) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon == std::string_view::npos || colon == 0 ||
      !parse_number(text.substr(colon + 1), 65535, &port) || port == 0) {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_SERVER is '{}': HOST:PORT, such as node1:4711",
                   text.substr(0, 128));
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  out_address->host = host;
  out_address->ports = {static_cast<uint16_t>(port)};
  return {};
}

Status no_address(const keel_launch_info& info) {
  return failure(
      KEEL_FAILED_PRECONDITION,
      "{} started {} ranks, {} of them on this host, and its variables do not say where "
      "rank 0 runs: set KEEL_SERVER=HOST:PORT for all ranks, to rank 0's host and a free "
      "port",
      info.launcher, info.world, info.local_world);
}

// The first node of "node[01-04,7]-ib,other".
std::string first_node(std::string_view list) {
  const size_t open = list.find('[');
  const size_t comma = list.find(',');
  if (open == std::string_view::npos || comma < open) return std::string(list.substr(0, comma));
  const size_t close = list.find(']', open);
  if (close == std::string_view::npos) return {};
  const std::string_view ranges = list.substr(open + 1, close - open - 1);
  const std::string_view rest = list.substr(close + 1);
  return std::string(list.substr(0, open)) +
         std::string(ranges.substr(0, ranges.find_first_of("-,"))) +
         std::string(rest.substr(0, rest.find(',')));
}

Status read_torchrun(const Variable& variable, const keel_launch_info& info,
                     HostServerAddress* out_address) {
  const std::string_view host = value_of(variable, "MASTER_ADDR");
  const std::string_view text = value_of(variable, "MASTER_PORT");
  uint32_t port = 0;
  if (host.empty() || text.empty()) return no_address(info);
  if (!parse_number(text, 65534, &port) || port == 0) {
    return failure(KEEL_INVALID_ARGUMENT, "MASTER_PORT={} is no port from 1 to 65534",
                   text.substr(0, 64));
  }
  out_address->host = host;
  add_ports(port + 1, out_address);  // torchrun itself listens at MASTER_PORT
  return {};
}

Status read_slurm(const Variable& variable, const keel_launch_info& info,
                  HostServerAddress* out_address) {
  std::string_view list = value_of(variable, "SLURM_STEP_NODELIST");
  if (list.empty()) list = value_of(variable, "SLURM_JOB_NODELIST");
  uint32_t job = 0;
  uint32_t step = 0;
  const std::string node = first_node(list);
  if (node.empty() || !parse_number(value_of(variable, "SLURM_JOB_ID"), UINT32_MAX, &job) ||
      !parse_number(value_of(variable, "SLURM_STEP_ID"), UINT32_MAX, &step)) {
    return no_address(info);
  }
  // Below the ports that Linux gives to clients, 32768 and above. Jobs of one node seldom meet, and
  // the server of another job refuses.
  constexpr uint32_t kFirst = 20000;
  constexpr uint32_t kGroups = 1500;
  out_address->host = node;
  add_ports(kFirst + (job * 31 + step) % kGroups * kPorts, out_address);
  return {};
}

}  // namespace

Status read_host_server(const Variable& variable, const keel_launch_info& info,
                        HostServerAddress* out_address) {
  *out_address = {};
  const std::string_view given = value_of(variable, "KEEL_SERVER");
  if (!given.empty()) return read_given(given, out_address);
  if (info.local_world >= info.world) {
    return failure(KEEL_NOT_FOUND, "all {} ranks run on this host", info.world);
  }
  const std::string_view launcher = info.launcher;
  if (launcher == "torchrun") return read_torchrun(variable, info, out_address);
  if (launcher == "Slurm") return read_slurm(variable, info, out_address);
  return no_address(info);
}

Status read_host_server(const keel_launch_info& info, HostServerAddress* out_address) {
  return read_host_server(trusted_environment, info, out_address);
}

}  // namespace keel
