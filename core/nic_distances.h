// SPDX-License-Identifier: Apache-2.0
// How far the network interfaces of this host are from a device.
#ifndef KEEL_CORE_NIC_DISTANCES_H_
#define KEEL_CORE_NIC_DISTANCES_H_

#include <string>
#include <vector>

namespace keel {

struct Nic {
  std::string name;    // of the interface: "ib0"
  int numa_node = -1;  // as the system says; -1: unknown
};

// Returns the distance of each of |nics| from the device at |pci_address|, empty if none is known,
// in the words of keel_topology_get: "same_chip" to "unknown". All are "unknown" where hwloc is
// missing or cannot read the machine. Takes 10 to 50 ms.
std::vector<std::string> nic_distances(const std::string& pci_address,
                                       const std::vector<Nic>& nics);

}  // namespace keel

#endif  // KEEL_CORE_NIC_DISTANCES_H_
