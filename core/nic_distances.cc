// SPDX-License-Identifier: Apache-2.0
#include "core/nic_distances.h"

#include "core/hwloc_topology.h"
#include "core/log.h"

namespace keel {

namespace {

Placement place(hwloc_topology* topology, const Nic& nic) {
  Placement placement;
  hwloc_obj_t object = nullptr;
  do {
    object = hwloc_get_next_osdev(topology, object);
  } while (object != nullptr && (object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK ||
                                 object->name == nullptr || nic.name != object->name));
  if (object != nullptr) placement = place_nic(topology, object);
  if (placement.numa_node < 0) placement.numa_node = nic.numa_node;
  return placement;
}

}  // namespace

std::vector<std::string> nic_distances(const std::string& pci_address,
                                       const std::vector<Nic>& nics) {
  std::vector<std::string> distances(nics.size(), "unknown");
  TopologyHandle topology;
  const Status loaded = load_topology(nullptr, &topology);
  if (!loaded.ok()) {
    log(KEEL_LOG_WARNING, "no distance of a network interface is known: {}", loaded.text());
    return distances;
  }
  keel_device_info info = {};
  info.numa_node = -1;
  pci_address.copy(info.pci_address, sizeof(info.pci_address) - 1);
  const Placement device = place_device(topology.get(), info);
  for (size_t i = 0; i < nics.size(); ++i) {
    distances[i] = distance_between(device, place(topology.get(), nics[i]));
  }
  return distances;
}

}  // namespace keel
