// SPDX-License-Identifier: Apache-2.0
// The network interfaces of this host.
#ifndef KEEL_BASE_IPC_HOST_INTERFACE_H_
#define KEEL_BASE_IPC_HOST_INTERFACE_H_

#include <string>
#include <vector>

#include "base/ipc/socket_address.h"

namespace keel {

struct HostInterface {
  std::string name;
  std::vector<SocketAddress> addresses;  // port 0; without IPv6 addresses of the link alone
  bool is_up = false;                    // and has a carrier
  // Has a device in sysfs: no bridge, tunnel, or end of a container's link.
  bool is_physical = false;
  int numa_node = -1;  // as sysfs says; -1: unknown
};

// Returns the interfaces of this host, none if the system lists none. |sysfs|: the folder that
// describes interfaces.
inline constexpr char kInterfaceFolder[] = "/sys/class/net";
std::vector<HostInterface> list_interfaces(const std::string& sysfs = kInterfaceFolder);

// Whether the subnet of an interface has both addresses. Ports do not count.
bool are_in_one_subnet(const SocketAddress& one, const SocketAddress& other);

}  // namespace keel

#endif  // KEEL_BASE_IPC_HOST_INTERFACE_H_
