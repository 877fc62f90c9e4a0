// SPDX-License-Identifier: Apache-2.0
#include "core/staging.h"

#include <fstream>
#include <string>

#include "core/hwloc_topology.h"
#include "core/log.h"

namespace keel {

namespace {

// Binding takes four system calls, about 1 us: not worth it for small buffers.
constexpr uint64_t kSmallestBound = 64 << 10;

// The file contains "0" for one node, else "0-1" or "0,2". Only a host with several nodes loads
// hwloc.
bool has_several_nodes() {
  std::string online;
  std::ifstream("/sys/devices/system/node/online") >> online;
  return online.find_first_of(",-") != std::string::npos;
}

// This machine's topology; NULL if there is nothing to choose. Lives as long as the process.
hwloc_topology* staging_topology() {
  static hwloc_topology* const topology = []() -> hwloc_topology* {
    if (!has_several_nodes()) return nullptr;
    TopologyHandle loaded;
    const Status status = load_topology(nullptr, &loaded);
    if (!status.ok()) {
      log(KEEL_LOG_WARNING, "staging buffers stay where they are first touched: {}", status.text());
      return nullptr;
    }
    return hwloc_topology_is_thissystem(loaded.get()) != 0 ? loaded.release() : nullptr;
  }();
  return topology;
}

// While alive, binds new pages of this thread to |node| if possible: drivers touch pinned pages
// before returning them. Leaves a policy alone if it could not be restored.
class ThreadOnNode {
 public:
  ThreadOnNode(hwloc_topology* topology, int node)
      : topology_(topology), before_(hwloc_bitmap_alloc()) {
    hwloc_obj_t object = hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(node));
    moved_ = object != nullptr && before_ != nullptr &&
             hwloc_get_membind(topology_, before_, &policy_, kFlags) == 0 &&
             policy_ != HWLOC_MEMBIND_MIXED &&
             hwloc_set_membind(topology_, object->nodeset, HWLOC_MEMBIND_BIND, kFlags) == 0;
  }
  ~ThreadOnNode() {
    if (moved_) hwloc_set_membind(topology_, before_, policy_, kFlags);
    hwloc_bitmap_free(before_);
  }
  ThreadOnNode(const ThreadOnNode&) = delete;
  ThreadOnNode& operator=(const ThreadOnNode&) = delete;

 private:
  static constexpr int kFlags = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET;

  hwloc_topology* const topology_;
  hwloc_nodeset_t before_;
  hwloc_membind_policy_t policy_ = HWLOC_MEMBIND_DEFAULT;
  bool moved_ = false;
};

}  // namespace

int find_staging_node(const keel_device_info& info) {
  hwloc_topology* topology = staging_topology();
  return topology == nullptr ? -1 : place_device(topology, info).numa_node;
}

Status alloc_staging(Device& device, uint64_t size, void** out_pointer) {
  const int node = size < kSmallestBound ? -1 : device.staging_node();
  if (node < 0) return device.memory().alloc(KEEL_MEMORY_PINNED, size, out_pointer);
  hwloc_topology* topology = staging_topology();
  {
    const ThreadOnNode on_node(topology, node);
    KEEL_RETURN_IF_ERROR(device.memory().alloc(KEEL_MEMORY_PINNED, size, out_pointer));
  }
  // For drivers that leave the first touch to the first writer.
  (void)bind_area(topology, node, *out_pointer, size);
  return {};
}

}  // namespace keel
