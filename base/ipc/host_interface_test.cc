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

// The loopback interface has 127.0.0.1/8.
TEST(OneSubnetTest, MaskOfTheInterfaceDecides) {
  const auto are_near = [](const char* one, const char* other) {
    SocketAddress parsed[2];
    EXPECT_TRUE(SocketAddress::parse(one, &parsed[0]) && SocketAddress::parse(other, &parsed[1]));
    return are_in_one_subnet(parsed[0], parsed[1]);
  };
  EXPECT_TRUE(are_near("127.0.0.1:1", "127.0.0.1:2"));
  EXPECT_TRUE(are_near("127.0.0.2:1", "127.255.0.1:1"));
  EXPECT_FALSE(are_near("127.0.0.1:1", "192.0.2.1:1"));
  EXPECT_FALSE(are_near("240.0.0.1:1", "240.0.0.1:1")) << "of no interface";
  EXPECT_FALSE(are_near("127.0.0.1:1", "[::1]:1"));
  EXPECT_FALSE(are_in_one_subnet({}, {}));
}

}  // namespace
}  // namespace keel
