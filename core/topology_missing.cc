// SPDX-License-Identifier: Apache-2.0
// Topology and staging in a build without hwloc.
#include "core/nic_distances.h"
#include "core/staging.h"
#include "core/topology.h"

namespace keel {

Status describe_topology(const char*, const std::vector<Ref<Device>>&, std::string*) {
  return failure(KEEL_UNSUPPORTED, "this Keel was built without hwloc");
}

std::vector<std::string> nic_distances(const std::string&, const std::vector<Nic>& nics) {
  return std::vector<std::string>(nics.size(), "unknown");
}

int find_staging_node(const keel_device_info&) {
  return -1;
}

Status alloc_staging(Device& device, uint64_t size, void** out_pointer) {
  return device.memory().alloc(KEEL_MEMORY_PINNED, size, out_pointer);
}

}  // namespace keel
