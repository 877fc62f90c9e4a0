// SPDX-License-Identifier: Apache-2.0
#include "core/nic_distances.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/testing/two_packages_xml.h"

namespace keel::testing {
namespace {

using Distances = std::vector<std::string>;

// Another machine, as hwloc reads it from a file.
class NicDistancesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = ::testing::TempDir() + "keel-nics-XXXXXX";
    const int descriptor = mkstemp(file_.data());
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    std::ofstream(file_) << kTwoPackagesXml;
    setenv("HWLOC_XMLFILE", file_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HWLOC_XMLFILE");
    if (!file_.empty()) unlink(file_.c_str());
  }
  std::string file_;
};

TEST_F(NicDistancesTest, InterfacesAreNearOrFarByTheirPciDevices) {
  const std::vector<Nic> nics = {{"ib0"}, {"eth1"}, {"bond0"}};
  EXPECT_EQ(nic_distances("0000:02:00.0", nics),
            Distances({"same_switch", "across_numa_nodes", "unknown"}));
  EXPECT_EQ(nic_distances("0000:05:00.0", nics),
            Distances({"same_host_bridge", "across_numa_nodes", "unknown"}));
  EXPECT_EQ(nic_distances("0000:81:00.0", nics),
            Distances({"across_numa_nodes", "same_host_bridge", "unknown"}));
}

TEST_F(NicDistancesTest, NumaNodeOfTheSystemCountsWhereHwlocKnowsNone) {
  EXPECT_EQ(nic_distances("0000:81:00.0", {{"eth7", 1}, {"eth8", 0}}),
            Distances({"same_numa_node", "across_numa_nodes"}));
}

TEST_F(NicDistancesTest, DeviceWithoutAPciAddressHasNone) {
  EXPECT_EQ(nic_distances("", {{"ib0"}, {"eth1"}}), Distances({"unknown", "unknown"}));
}

TEST_F(NicDistancesTest, MachineThatCannotBeReadHasNone) {
  unlink(file_.c_str());
  EXPECT_EQ(nic_distances("0000:02:00.0", {{"ib0"}}), Distances({"unknown"}));
}

}  // namespace
}  // namespace keel::testing
