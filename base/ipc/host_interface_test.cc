// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/host_interface.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace keel {
namespace {

TEST(ListInterfacesTest, LoopbackIsUpAndHasADeviceWhereSysfsHasOne) {
  const auto loopback = [](const std::string& sysfs) {
    const std::vector<HostInterface> interfaces = list_interfaces(sysfs);
    const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                    [](const auto& each) { return each.name == "lo"; });
    return found == interfaces.end() ? HostInterface() : *found;
  };
  const HostInterface real = loopback(kInterfaceFolder);
  EXPECT_TRUE(real.is_up);
  EXPECT_FALSE(real.is_physical);
  EXPECT_EQ(real.numa_node, -1);
  ASSERT_FALSE(real.addresses.empty());
  EXPECT_TRUE(real.addresses[0].is_loopback());
  std::string folder = ::testing::TempDir() + "keel-sysfs-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::create_directories(folder + "/lo/device");
  EXPECT_TRUE(loopback(folder).is_physical);
  EXPECT_EQ(loopback(folder).numa_node, -1);
  std::ofstream(folder + "/lo/device/numa_node") << "3\n";
  EXPECT_EQ(loopback(folder).numa_node, 3);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace keel
