// SPDX-License-Identifier: Apache-2.0
#include "core/topology.h"

#include <dirent.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <keel/cpu_limit.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/chip.h"
#include "core/hwloc_topology.h"
#include "core/json_writer.h"

namespace keel {

namespace {

void write_number_or_null(JsonWriter& json, int number) {
  if (number < 0) {
    json.null();
  } else {
    json.number(number);
  }
}

int count_inside(hwloc_topology* topology, hwloc_obj_t object, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, type));
}

std::vector<hwloc_obj_t> objects(hwloc_topology* topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> found;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    found.push_back(object);
  }
  return found;
}

std::string list_text(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (set == nullptr || hwloc_bitmap_list_asprintf(&text, set) < 0) return {};
  const std::unique_ptr<char, decltype(&std::free)> owner(text, std::free);
  return text;
}

void write_packages(JsonWriter& json, hwloc_topology* topology) {
  json.begin_array();
  for (hwloc_obj_t package : objects(topology, HWLOC_OBJ_PACKAGE)) {
    json.begin_object();
    json.key("index").number(package->logical_index);
    json.key("model").text_or_null(hwloc_obj_get_info_by_name(package, "CPUModel"));
    json.key("cores").number(count_inside(topology, package, HWLOC_OBJ_CORE));
    json.key("pus").number(count_inside(topology, package, HWLOC_OBJ_PU));
    json.key("numa_nodes").begin_array();
    unsigned node = 0;
    hwloc_bitmap_foreach_begin(node, package->nodeset) json.number(node);
    hwloc_bitmap_foreach_end();
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

// ---- memory ----------------------------------------------------------------------

// hwloc adds up the memory that each node had at boot, which misses memory added to a virtual
// machine since (6.9 of 23.5 GiB on one). If the sum differs from the system's count, the system's
// count is used, and a node's share is given only if one node has all memory.
struct MemoryFigures {
  uint64_t machine = 0;
  bool is_known = true;
  bool nodes_agree = true;
  std::string note;
};

MemoryFigures measure_memory(hwloc_topology* topology, const char* synthetic,
                             const std::vector<hwloc_obj_t>& nodes) {
  MemoryFigures figures;
  // hwloc assigns 1 GiB to each node of a description without "memory=".
  if (synthetic != nullptr && std::strstr(synthetic, "memory=") == nullptr) {
    figures.is_known = figures.nodes_agree = false;
    return figures;
  }
  for (hwloc_obj_t node : nodes) figures.machine += node->attr->numanode.local_memory;
  struct sysinfo info = {};
  if (hwloc_topology_is_thissystem(topology) == 0 || sysinfo(&info) != 0) return figures;
  const uint64_t counted = figures.machine;
  const auto system = static_cast<uint64_t>(info.totalram) * info.mem_unit;
  const uint64_t difference = system > counted ? system - counted : counted - system;
  figures.machine = system;
  figures.nodes_agree = difference <= system / 20;
  if (!figures.nodes_agree) {
    constexpr double kGib = 1 << 30;
    figures.note = fmt::format(
        "hwloc counts {:.1f} GiB in the NUMA nodes, the system {:.1f} GiB: the system's figure "
        "is given",
        static_cast<double>(counted) / kGib, static_cast<double>(system) / kGib);
  }
  return figures;
}

void write_numa_nodes(JsonWriter& json, hwloc_topology* topology,
                      const std::vector<hwloc_obj_t>& nodes, const MemoryFigures& memory) {
  json.begin_array();
  for (hwloc_obj_t node : nodes) {
    json.begin_object();
    json.key("index").number(node->os_index);
    json.key("packages").begin_array();
    for (hwloc_obj_t package : objects(topology, HWLOC_OBJ_PACKAGE)) {
      if (hwloc_bitmap_isset(package->nodeset, node->os_index) != 0) {
        json.number(package->logical_index);
      }
    }
    json.end_array();
    json.key("memory_bytes");
    if (memory.nodes_agree) {
      json.number(node->attr->numanode.local_memory);
    } else if (memory.is_known && nodes.size() == 1) {
      json.number(memory.machine);
    } else {
      json.null();  // unknown
    }
    json.key("cores").number(count_inside(topology, node, HWLOC_OBJ_CORE));
    json.key("pus").number(count_inside(topology, node, HWLOC_OBJ_PU));
    json.key("cpus").text(list_text(node->cpuset));
    json.end_object();
  }
  json.end_array();
}

// ---- devices and network interfaces ----------------------------------------------

PciAddress address_of(hwloc_obj_t pci) {
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& attributes = pci->attr->pcidev;
  return {static_cast<uint32_t>(attributes.domain), attributes.bus, attributes.dev,
          attributes.func};
}

// Lists the path from the host bridge, "0000:[00-3f]", through every PCI bridge to the device.
std::vector<std::string> pci_path(hwloc_obj_t pci) {
  std::vector<std::string> steps;
  for (hwloc_obj_t object = pci; object != nullptr && hwloc_obj_type_is_io(object->type);
       object = object->parent) {
    if (object->type != HWLOC_OBJ_BRIDGE) {
      steps.push_back(address_of(object).text());
      continue;
    }
    const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge = object->attr->bridge;
    if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
      steps.push_back(address_of(object).text());
    } else {
      const auto& below = bridge.downstream.pci;
      steps.push_back(fmt::format("{:04x}:[{:02x}-{:02x}]", static_cast<uint32_t>(below.domain),
                                  below.secondary_bus, below.subordinate_bus));
    }
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// An end point of distances.
struct Placed {
  std::string name;
  Placement placement;
  int chip = -1;  // of a device; else -1
};

void write_devices(JsonWriter& json, hwloc_topology* topology,
                   const std::vector<Ref<Device>>& devices, std::vector<Placed>* placed) {
  std::vector<keel_device_info> infos;
  for (const auto& device : devices) infos.push_back(device->info());
  const std::vector<uint32_t> chips = number_chips(infos);
  json.begin_array();
  for (size_t i = 0; i < devices.size(); ++i) {
    const Placement placement = place_device(topology, infos[i]);
    const auto address = parse_pci_address(infos[i].pci_address);
    json.begin_object();
    json.key("name").text(devices[i]->name());
    json.key("description").text(infos[i].name);
    json.key("chip").number(chips[i]);
    json.key("pci_address").text_or_null(address ? address->text().c_str() : nullptr);
    json.key("pci_path").begin_array();
    if (placement.pci != nullptr) {
      for (const std::string& step : pci_path(placement.pci)) json.text(step);
    }
    json.end_array();
    write_number_or_null(json.key("numa_node"), placement.numa_node);
    json.key("placed_by").text_or_null(placement.told_by);
    json.end_object();
    placed->push_back({devices[i]->name(), placement, static_cast<int>(chips[i])});
  }
  json.end_array();
}

// Returns -1 if the system gives no number.
int read_number(const std::string& file) {
  int number = -1;
  std::ifstream(file) >> number;
  return number < 0 ? -1 : number;
}

void write_nic(JsonWriter& json, const std::string& name, const char* kind,
               const Placement& placement, std::vector<Placed>* placed) {
  const hwloc_obj_t pci = placement.pci;
  json.begin_object();
  json.key("name").text(name);
  json.key("kind").text(kind);
  json.key("pci_address").text_or_null(pci == nullptr ? nullptr : address_of(pci).text().c_str());
  write_number_or_null(json.key("numa_node"), placement.numa_node);
  json.end_object();
  placed->push_back({name, placement});
}

constexpr char kInterfaces[] = "/sys/class/net/";

// Names of interfaces with a device: loopback and tunnels are no NICs. Uses readdir, since a
// directory_iterator without memory for a name ends the process.
std::vector<std::string> system_nics() {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kInterfaces), closedir);
  if (folder == nullptr) return names;
  while (const dirent* const entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const std::string device = std::string(kInterfaces) + entry->d_name + "/device";
    if (access(device.c_str(), F_OK) == 0) names.emplace_back(entry->d_name);
  }
  return names;
}

// Writes the NICs known to hwloc, then NICs known to the system only.
void write_nics(JsonWriter& json, hwloc_topology* topology, std::vector<Placed>* placed) {
  const bool is_here = hwloc_topology_is_thissystem(topology) != 0;
  const auto node_of = [&](const std::string& name, int known) {
    if (known >= 0 || !is_here) return known;
    return read_number(kInterfaces + name + "/device/numa_node");
  };
  json.begin_array();
  std::vector<std::string> known;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_osdev(topology, object)) != nullptr;) {
    const hwloc_obj_osdev_type_t type = object->attr->osdev.type;
    if (type != HWLOC_OBJ_OSDEV_NETWORK && type != HWLOC_OBJ_OSDEV_OPENFABRICS) continue;
    if (object->name == nullptr) continue;
    Placement placement = place_nic(topology, object);
    placement.numa_node = node_of(object->name, placement.numa_node);
    write_nic(json, object->name, type == HWLOC_OBJ_OSDEV_NETWORK ? "network" : "openfabrics",
              placement, placed);
    known.emplace_back(object->name);
  }
  for (const std::string& name : is_here ? system_nics() : std::vector<std::string>()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Placement placement;
    placement.numa_node = node_of(name, -1);
    write_nic(json, name, "network", placement, placed);
  }
  json.end_array();
}

// Writes the distances of all pairs with at least one device of Keel.
void write_distances(JsonWriter& json, const std::vector<Placed>& placed) {
  json.begin_array();
  for (size_t i = 0; i < placed.size(); ++i) {
    for (size_t j = i + 1; j < placed.size() && placed[i].chip >= 0; ++j) {
      const bool same_chip = placed[i].chip == placed[j].chip;
      json.begin_object();
      json.key("from").text(placed[i].name);
      json.key("to").text(placed[j].name);
      json.key("distance")
          .text(same_chip ? "same_chip"
                          : distance_between(placed[i].placement, placed[j].placement));
      json.end_object();
    }
  }
  json.end_array();
}

void write_staging(JsonWriter& json, hwloc_topology* topology, size_t nodes) {
  const hwloc_topology_support* support = hwloc_topology_get_support(topology);
  const char* reason = nullptr;
  if (nodes < 2) {
    reason = "one NUMA node: nothing to choose";
  } else if (hwloc_topology_is_thissystem(topology) != 0 &&
             support->membind->set_area_membind == 0) {
    reason = "memory of this machine cannot be bound to a node";
  }
  json.begin_object();
  json.key("binds").boolean(reason == nullptr);
  json.key("reason").text(reason == nullptr ? "to the numa_node of the device that stages"
                                            : reason);
  json.end_object();
}

}  // namespace

Status describe_topology(const char* synthetic, const std::vector<Ref<Device>>& devices,
                         std::string* out_json) {
  TopologyHandle handle;
  KEEL_RETURN_IF_ERROR(load_topology(synthetic, &handle));
  hwloc_topology* topology = handle.get();
  const bool is_here = hwloc_topology_is_thissystem(topology) != 0;
  const std::vector<hwloc_obj_t> nodes = objects(topology, HWLOC_OBJ_NUMANODE);
  const MemoryFigures memory = measure_memory(topology, synthetic, nodes);

  out_json->clear();
  JsonWriter json(out_json);
  json.begin_object();
  json.key("source").text(synthetic != nullptr ? "synthetic" : is_here ? "machine" : "file");
  json.key("memory_bytes");
  if (memory.is_known) {
    json.number(memory.machine);
  } else {
    json.null();
  }
  json.key("cores").number(std::max(0, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE)));
  json.key("pus").number(std::max(0, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU)));
  write_packages(json.key("packages"), topology);
  write_numa_nodes(json.key("numa_nodes"), topology, nodes, memory);
  // Limits of another machine are unknown.
  const CpuLimit limit = is_here ? CpuLimit::of() : CpuLimit();
  json.key("cpu_limit").number(limit.cores());
  std::vector<Placed> placed;
  write_devices(json.key("devices"), topology,
                synthetic != nullptr ? std::vector<Ref<Device>>() : devices, &placed);
  write_nics(json.key("nics"), topology, &placed);
  write_distances(json.key("distances"), placed);
  write_staging(json.key("staging"), topology, nodes.size());
  json.key("notes").begin_array();
  if (!memory.note.empty()) json.text(memory.note);
  if (limit.is_limited()) {
    json.text(fmt::format("the control group {} leaves this process the time of {:.2f} cores",
                          limit.group(), limit.cores()));
  }
  json.end_array();
  json.end_object();
  return {};
}

}  // namespace keel
