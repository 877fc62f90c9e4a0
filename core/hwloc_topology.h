// SPDX-License-Identifier: Apache-2.0
// The machine as hwloc reports it, and the placement of devices in it.
#ifndef KEEL_CORE_HWLOC_TOPOLOGY_H_
#define KEEL_CORE_HWLOC_TOPOLOGY_H_

#include <hwloc.h>
#include <keel/abi.h>

#include <cstdint>
#include <memory>

#include "core/status.h"

namespace keel {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, TopologyDeleter>;

// Loads this machine with its PCI devices or, if |synthetic| is not NULL, the machine that
// |synthetic| describes. hwloc reads HWLOC_XMLFILE and similar variables: if the file or folder
// that a variable names cannot be read, the call fails with KEEL_UNAVAILABLE and the variable's
// name, for HWLOC_SYNTHETIC with KEEL_INVALID_ARGUMENT. In a process that gained privileges at
// start (AT_SECURE), any HWLOC_ variable makes the call fail with KEEL_PERMISSION_DENIED. Takes 10
// to 50 ms.
Status load_topology(const char* synthetic, TopologyHandle* out_topology);

// The place of a device or NIC in the machine. Several threads may read one object.
struct Placement {
  hwloc_obj_t pci = nullptr;  // its PCI device; NULL: none is known
  int numa_node = -1;         // OS index; -1: unknown
  // Source of |numa_node|: "pci_address", "numa_node", "only_node"; NULL if unknown.
  const char* told_by = nullptr;
};

Placement place_device(hwloc_topology* topology, const keel_device_info& info);
// Returns the place of an OS device, such as a network interface.
Placement place_nic(hwloc_topology* topology, hwloc_obj_t object);

// Returns the NUMA node local to |object|; -1 unless there is exactly one.
int local_numa_node(hwloc_topology* topology, hwloc_obj_t object);

// Returns the distance of two placements, nearest first: "same_chip", "same_switch" (below one PCI
// bridge), "same_host_bridge", "same_numa_node", "across_numa_nodes", "unknown".
const char* distance_between(const Placement& a, const Placement& b);

// Requests that the untouched pages of [pointer, pointer + size) are allocated on |node|. Best
// effort: false if the system refuses.
bool bind_area(hwloc_topology* topology, int node, void* pointer, uint64_t size);

}  // namespace keel

#endif  // KEEL_CORE_HWLOC_TOPOLOGY_H_
