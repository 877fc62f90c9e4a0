// SPDX-License-Identifier: Apache-2.0
#include "core/hwloc_topology.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/chip.h"

namespace keel {

namespace {

// hwloc builds the described machine in time cubic in its size: 1.5 s for 2,048 NUMA nodes, 41 s
// for 4,096; a dozen words can request more objects than fit in memory. For comparison, 32 sockets
// of 28 cores have 1,792 threads.
constexpr uint64_t kMostSyntheticUnits = 1 << 11;
constexpr size_t kLongestSynthetic = 4096;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Returns an upper bound of the objects that "pack:2 numa:2 core:4" requests: the product of the
// counts, times the objects attached to each by "[numa]". Counts are read as hwloc reads them
// (strtoul: "0x10", "010" and "-18446744073709551614" are numbers too). A count may directly follow
// another: "018" reads as 1 and 8. Brackets behind a count describe no level; hwloc skips other
// brackets on its way to the next colon.
uint64_t count_units(const char* text) {
  uint64_t units = 1;
  uint64_t attached = 0;
  const char* before = " ";
  const char* behind = nullptr;  // behind the last count and its brackets
  for (const char* at = text; *at != '\0' && units <= kMostSyntheticUnits; before = at, ++at) {
    if (*at == '[') ++attached;
    if (at != behind && *before != ':' && !is_space(*before)) continue;
    char* end = nullptr;
    const unsigned long long count = std::strtoull(at, &end, 0);
    if (end == at) continue;
    units *= std::clamp<uint64_t>(count, 1, kMostSyntheticUnits + 1);
    const char* const closing = *end == '(' ? std::strchr(end, ')') : nullptr;
    at = closing == nullptr ? end - 1 : closing;
    behind = at + 1;
  }
  return units * (1 + attached);
}

Status describe_synthetic(hwloc_topology* topology, const char* synthetic) {
  const size_t length = strnlen(synthetic, kLongestSynthetic + 1);
  if (length > kLongestSynthetic) {
    return failure(KEEL_INVALID_ARGUMENT, "synthetic is longer than {} characters",
                   kLongestSynthetic);
  }
  if (count_units(synthetic) > kMostSyntheticUnits) {
    return failure(KEEL_INVALID_ARGUMENT, "synthetic '{}' has more than {} units", synthetic,
                   kMostSyntheticUnits);
  }
  if (length == 0 || hwloc_topology_set_synthetic(topology, synthetic) != 0) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "synthetic '{}' describes no machine; one is \"pack:2 numa:2 core:4 pu:2\"",
                   synthetic);
  }
  return {};
}

// hwloc reads environment variables with plain getenv, and HWLOC_PLUGINS_PATH among them names a
// folder from which hwloc loads code.
std::optional<std::string> untrusted_variable() {
  if (getauxval(AT_SECURE) == 0) return std::nullopt;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("HWLOC_")) return std::string(text.substr(0, text.find('=')));
  }
  return std::nullopt;
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// Applies the variables that name another machine. hwloc applies only the first, in this order, and
// none if HWLOC_COMPONENTS is set; if the target cannot be read, hwloc by itself silently uses this
// machine. |*out_source|: "NAME=VALUE: " of the applied variable.
Status heed_variables(hwloc_topology* topology, std::string* out_source) {
  if (std::getenv("HWLOC_COMPONENTS") != nullptr) return {};
  const auto refuse = [&](const char* what) {
    return failure(KEEL_UNAVAILABLE, "{}{}: {}", *out_source, what, std::strerror(errno));
  };
  for (const char* name : {"HWLOC_FSROOT", "HWLOC_CPUID_PATH"}) {
    const char* const folder = variable(name);
    if (folder == nullptr) continue;
    *out_source = fmt::format("{}={}: ", name, folder);
    if (access(folder, R_OK | X_OK) != 0) return refuse("hwloc cannot read the folder");
    return {};
  }
  if (const char* const synthetic = variable("HWLOC_SYNTHETIC")) {
    *out_source = "HWLOC_SYNTHETIC: ";
    return describe_synthetic(topology, synthetic).with_prefix(*out_source);
  }
  if (const char* const file = variable("HWLOC_XMLFILE")) {
    *out_source = fmt::format("HWLOC_XMLFILE={}: ", file);
    // "-" is standard input.
    if (std::string_view(file) != "-" && access(file, R_OK) != 0) return refuse("cannot be read");
    if (hwloc_topology_set_xml(topology, file) != 0) return refuse("is no machine of hwloc's");
  }
  return {};
}

// Returns the bridge to the PCI bus or buses of |object|; NULL above a host bridge.
hwloc_obj_t bridge_above(hwloc_obj_t object) {
  do {
    object = object->parent;
  } while (object != nullptr && object->type != HWLOC_OBJ_BRIDGE &&
           hwloc_obj_type_is_io(object->type));
  return object != nullptr && object->type == HWLOC_OBJ_BRIDGE ? object : nullptr;
}

hwloc_obj_t common_bridge(hwloc_obj_t a, hwloc_obj_t b) {
  for (hwloc_obj_t above_a = bridge_above(a); above_a != nullptr; above_a = bridge_above(above_a)) {
    for (hwloc_obj_t above_b = bridge_above(b); above_b != nullptr;
         above_b = bridge_above(above_b)) {
      if (above_a == above_b) return above_a;
    }
  }
  return nullptr;
}

bool is_same_slot(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& a,
                  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& b) {
  return a.domain == b.domain && a.bus == b.bus && a.dev == b.dev;
}

}  // namespace

Status load_topology(const char* synthetic, TopologyHandle* out_topology) {
  if (const auto variable = untrusted_variable()) {
    return failure(KEEL_PERMISSION_DENIED,
                   "this process gained privileges by its start, and hwloc would heed {}",
                   *variable);
  }
  hwloc_topology_t created = nullptr;
  if (hwloc_topology_init(&created) != 0) return failure(KEEL_INTERNAL, "hwloc does not start");
  TopologyHandle topology(created);
  std::string source;
  if (synthetic != nullptr) {
    KEEL_RETURN_IF_ERROR(describe_synthetic(created, synthetic));
  } else {
    // Each of these starts a vendor's runtime, and only plugins may do so.
    for (const char* component : {"opencl", "cuda", "nvml", "gl", "rsmi", "levelzero"}) {
      hwloc_topology_set_components(created, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    }
    KEEL_RETURN_IF_ERROR(heed_variables(created, &source));
  }
  hwloc_topology_set_io_types_filter(created, HWLOC_TYPE_FILTER_KEEP_ALL);
  // Without the flag, hwloc moves this thread from core to core to inspect each.
  hwloc_topology_set_flags(created, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  // libudev, which hwloc asks for devices, seeds its tables once and without a lock.
  static std::mutex loading;
  const std::lock_guard lock(loading);
  if (hwloc_topology_load(created) != 0) {
    const int error = errno;
    if (synthetic != nullptr) {
      return failure(KEEL_INVALID_ARGUMENT, "synthetic '{}' describes no machine", synthetic);
    }
    return failure(KEEL_UNAVAILABLE, "{}hwloc cannot read the machine: {}", source,
                   std::strerror(error));
  }
  *out_topology = std::move(topology);
  return {};
}

int local_numa_node(hwloc_topology* topology, hwloc_obj_t object) {
  hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, object);
  if (place == nullptr || place->nodeset == nullptr || hwloc_bitmap_weight(place->nodeset) != 1) {
    return -1;
  }
  return hwloc_bitmap_first(place->nodeset);
}

Placement place_device(hwloc_topology* topology, const keel_device_info& info) {
  Placement placement;
  if (const auto address = parse_pci_address(info.pci_address)) {
    placement.pci = hwloc_get_pcidev_by_busid(topology, address->domain, address->bus,
                                              address->device, address->function);
  }
  hwloc_const_nodeset_t nodes = hwloc_topology_get_topology_nodeset(topology);
  if (placement.pci != nullptr) placement.numa_node = local_numa_node(topology, placement.pci);
  if (placement.numa_node >= 0) {
    placement.told_by = "pci_address";
  } else if (info.numa_node >= 0 &&
             hwloc_bitmap_isset(nodes, static_cast<unsigned>(info.numa_node)) != 0) {
    placement.numa_node = info.numa_node;
    placement.told_by = "numa_node";
  } else if (hwloc_bitmap_weight(nodes) == 1) {
    placement.numa_node = hwloc_bitmap_first(nodes);
    placement.told_by = "only_node";
  }
  return placement;
}

Placement place_nic(hwloc_topology* topology, hwloc_obj_t object) {
  Placement placement;
  placement.numa_node = local_numa_node(topology, object);
  for (hwloc_obj_t above = object->parent; above != nullptr && placement.pci == nullptr;
       above = above->parent) {
    if (above->type == HWLOC_OBJ_PCI_DEVICE) placement.pci = above;
  }
  return placement;
}

const char* distance_between(const Placement& a, const Placement& b) {
  if (a.pci != nullptr && b.pci != nullptr) {
    if (is_same_slot(a.pci->attr->pcidev, b.pci->attr->pcidev)) return "same_chip";
    if (hwloc_obj_t bridge = common_bridge(a.pci, b.pci); bridge != nullptr) {
      const bool is_host = bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
      return is_host ? "same_host_bridge" : "same_switch";
    }
  }
  if (a.numa_node < 0 || b.numa_node < 0) return "unknown";
  return a.numa_node == b.numa_node ? "same_numa_node" : "across_numa_nodes";
}

bool bind_area(hwloc_topology* topology, int node, void* pointer, uint64_t size) {
  hwloc_obj_t object = hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(node));
  return object != nullptr &&
         hwloc_set_area_membind(topology, pointer, size, object->nodeset, HWLOC_MEMBIND_BIND,
                                HWLOC_MEMBIND_BYNODESET) == 0;
}

}  // namespace keel
