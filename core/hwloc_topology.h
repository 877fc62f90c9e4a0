// SPDX-License-Identifier: Apache-2.0
// The machine as hwloc sees it, and where a device lies in it.
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

// This machine with its PCI devices, or one that |synthetic| describes, if not NULL.
// hwloc heeds HWLOC_XMLFILE and its like: KEEL_UNAVAILABLE, naming the variable, where what one
// names cannot be read, KEEL_INVALID_ARGUMENT for HWLOC_SYNTHETIC. A process that gained privileges
// by its start is refused while the environment has any of them. Takes 10 to 50 ms.
Status load_topology(const char* synthetic, TopologyHandle* out_topology);

// Where something lies. May be read by several threads.
struct Placement {
  hwloc_obj_t pci = nullptr;  // its PCI device; NULL: has none that is known
  int numa_node = -1;         // the number that the system gives it; -1: unknown
  // What told the node: "pci_address", "numa_node", "only_node"; NULL: nothing did.
  const char* told_by = nullptr;
};

Placement place_device(hwloc_topology* topology, const keel_device_info& info);

// The one NUMA node that |object| is local to; -1 where there are several.
int local_numa_node(hwloc_topology* topology, hwloc_obj_t object);

// How near two of them are, nearest first: "same_chip", "same_switch" (below one PCI
// bridge), "same_host_bridge", "same_numa_node", "across_numa_nodes", "unknown".
const char* distance_between(const Placement& a, const Placement& b);

// Asks that the pages of [pointer, pointer + size) which nobody has touched yet come
// from |node|. Best effort: false where the system will not.
bool bind_area(hwloc_topology* topology, int node, void* pointer, uint64_t size);

}  // namespace keel

#endif  // KEEL_CORE_HWLOC_TOPOLOGY_H_
