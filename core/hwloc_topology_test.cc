// SPDX-License-Identifier: Apache-2.0
#include "core/hwloc_topology.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>

namespace keel {
namespace {

constexpr size_t kBytes = 1 << 20;

class Mapping {
 public:
  Mapping()
      : address_(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Mapping() { munmap(address_, kBytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(address_); }

 private:
  void* address_;
};

struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

TEST(HwlocTopology, ABoundAreaIsOnItsNode) {
  TopologyHandle topology;
  ASSERT_TRUE(load_topology(nullptr, &topology).ok());
  if (hwloc_topology_is_thissystem(topology.get()) == 0 ||
      hwloc_topology_get_support(topology.get())->membind->set_area_membind == 0) {
    GTEST_SKIP() << "memory of this system cannot be bound";
  }
  const int last = hwloc_bitmap_last(hwloc_topology_get_topology_nodeset(topology.get()));
  const Mapping memory;
  // Not from the start of a page, like blocks of a pool.
  ASSERT_TRUE(bind_area(topology.get(), last, memory.data() + 64, kBytes - 64));
  const Bitmap nodes(hwloc_bitmap_alloc());
  hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
  ASSERT_EQ(hwloc_get_area_membind(topology.get(), memory.data() + 4096, kBytes - 4096, nodes.get(),
                                   &policy, HWLOC_MEMBIND_BYNODESET),
            0);
  EXPECT_EQ(policy, HWLOC_MEMBIND_BIND);
  EXPECT_EQ(hwloc_bitmap_first(nodes.get()), last);
  EXPECT_EQ(hwloc_bitmap_weight(nodes.get()), 1);
  memory.data()[kBytes - 1] = 1;
  ASSERT_EQ(hwloc_get_area_memlocation(topology.get(), memory.data() + kBytes - 1, 1, nodes.get(),
                                       HWLOC_MEMBIND_BYNODESET),
            0);
  EXPECT_EQ(hwloc_bitmap_first(nodes.get()), last);
}

TEST(HwlocTopology, ANodeThatIsNotThereLeavesMemoryAsItIs) {
  TopologyHandle topology;
  ASSERT_TRUE(load_topology(nullptr, &topology).ok());
  const Mapping memory;
  EXPECT_FALSE(bind_area(topology.get(), 4000, memory.data(), kBytes));
  memory.data()[0] = 1;
}

TEST(HwlocTopology, ADeviceOfManyNodesIsPlacedByWhatItSays) {
  TopologyHandle topology;
  ASSERT_TRUE(load_topology("pack:2 numa:2 core:4 pu:2", &topology).ok());
  keel_device_info info = {};
  info.numa_node = 3;
  Placement placement = place_device(topology.get(), info);
  EXPECT_EQ(placement.numa_node, 3);
  EXPECT_STREQ(placement.told_by, "numa_node");
  for (const int unknown : {-1, 4}) {
    info.numa_node = unknown;
    placement = place_device(topology.get(), info);
    EXPECT_EQ(placement.numa_node, -1);
    EXPECT_EQ(placement.told_by, nullptr);
  }
}

TEST(HwlocTopology, ADeviceOfOneNodeCanOnlyBeThere) {
  TopologyHandle topology;
  ASSERT_TRUE(load_topology("pack:1 core:2 pu:1", &topology).ok());
  keel_device_info info = {};
  info.numa_node = -1;
  const Placement placement = place_device(topology.get(), info);
  EXPECT_EQ(placement.numa_node, 0);
  EXPECT_STREQ(placement.told_by, "only_node");
}

}  // namespace
}  // namespace keel
