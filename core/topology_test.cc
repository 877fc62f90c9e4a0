// SPDX-License-Identifier: Apache-2.0
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <keel/cpu_limit.hpp>
#include <nlohmann/json.hpp>

#include "core/testing/host_memory.h"
#include "core/testing/keel_test.h"
#include "core/testing/two_packages_xml.h"

namespace keel::testing {
namespace {

using nlohmann::json;

json topology(const char* synthetic = nullptr) {
  std::string text(1 << 20, '\0');
  uint64_t size = text.size();
  EXPECT_KEEL_OK(keel_topology_get(synthetic, text.data(), &size));
  EXPECT_EQ(size, std::strlen(text.c_str()) + 1);
  return json::parse(text.c_str());
}

json named(const json& list, const std::string& name) {
  for (const json& each : list) {
    if (each.at("name") == name) return each;
  }
  ADD_FAILURE() << name << " is not in " << list;
  return {};
}

std::string distance(const json& topology, const std::string& from, const std::string& to) {
  for (const json& entry : topology.at("distances")) {
    if (entry.at("from") == from && entry.at("to") == to) return entry.at("distance");
  }
  return "none";
}

class TopologyTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    uint64_t size = 0;
    if (keel_topology_get(nullptr, nullptr, &size) == KEEL_UNSUPPORTED) {
      GTEST_SKIP() << keel_last_error();
    }
  }
  void TearDown() override {
    unsetenv("HWLOC_XMLFILE");
    if (!file_.empty()) unlink(file_.c_str());
    KeelTest::TearDown();
  }
  // Replaces the machine from now on.
  void become(const std::string& xml) {
    if (!file_.empty()) unlink(file_.c_str());
    file_ = "/tmp/keel-topology-XXXXXX";
    const int descriptor = mkstemp(file_.data());
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    std::ofstream(file_) << xml;
    setenv("HWLOC_XMLFILE", file_.c_str(), 1);
  }

 private:
  std::string file_;
};

TEST_F(TopologyTest, ThisMachineHasTheMemoryThatTheSystemCounts) {
  load("fake");
  const json machine = topology();
  EXPECT_EQ(machine.at("source"), "machine");
  struct sysinfo info = {};
  ASSERT_EQ(sysinfo(&info), 0);
  EXPECT_EQ(machine.at("memory_bytes"), static_cast<uint64_t>(info.totalram) * info.mem_unit);
  EXPECT_GT(machine.at("pus"), 0);
  ASSERT_FALSE(machine.at("numa_nodes").empty());
  // The nodes add up to the same, or no node reports its memory.
  uint64_t sum = 0;
  bool all_known = true;
  for (const json& node : machine.at("numa_nodes")) {
    all_known = all_known && !node.at("memory_bytes").is_null();
    if (all_known) sum += node.at("memory_bytes").get<uint64_t>();
  }
  if (all_known) {
    EXPECT_NEAR(static_cast<double>(sum), machine.at("memory_bytes").get<double>(),
                machine.at("memory_bytes").get<double>() / 20);
  }
  EXPECT_EQ(machine.at("devices").size(), 2u);
  EXPECT_NE(distance(machine, "fake:0", "fake:1"), "none");
}

TEST_F(TopologyTest, ASyntheticMachineIsDescribedWithoutDevices) {
  load("fake");
  const json machine = topology("pack:2 numa:2 core:4 pu:2");
  EXPECT_EQ(machine.at("source"), "synthetic");
  EXPECT_EQ(machine.at("packages").size(), 2u);
  EXPECT_EQ(machine.at("numa_nodes").size(), 4u);
  EXPECT_EQ(machine.at("cores"), 16);
  EXPECT_EQ(machine.at("pus"), 32);
  const json& node = machine.at("numa_nodes").at(3);
  EXPECT_EQ(node.at("index"), 3);
  EXPECT_EQ(node.at("packages"), json::array({1}));
  EXPECT_EQ(node.at("cores"), 4);
  EXPECT_EQ(node.at("pus"), 8);
  EXPECT_EQ(node.at("cpus"), "24-31");
  EXPECT_TRUE(node.at("memory_bytes").is_null()) << "nobody said how much";
  EXPECT_TRUE(machine.at("memory_bytes").is_null());
  EXPECT_EQ(topology("numa:2(memory=1073741824) core:1 pu:1").at("memory_bytes"), 2ull << 30);
  EXPECT_TRUE(machine.at("devices").empty());
  EXPECT_TRUE(machine.at("nics").empty());
  EXPECT_EQ(machine.at("staging").at("binds"), true);
}

TEST_F(TopologyTest, WhatIsNoMachineIsRefused) {
  for (const std::string& synthetic :
       {std::string(), std::string("nonsense"), std::string("pack:"), std::string("pack:x"),
        std::string("pack:2 pack:2 pu:"), std::string("core:2 pack:2 pu:0"),
        std::string("pack:2 (((("), std::string("-1"), std::string("\xff\xfe"),
        std::string("pack:99999999999999999999 pu:2"), std::string("pack:1000 core:1000 pu:1000"),
        // 4,000 units, in all spellings of a number.
        std::string("numa:4000 pu:1"), std::string("numa:0xfa0 pu:1"),
        std::string("numa:07640 pu:1"), std::string("numa:+4000 pu:1"),
        std::string("numa:-18446744073709547616 pu:1"),
        // Adjacent counts.
        std::string("018000"), std::string("pack:018000 pu:1"),
        std::string("numa:1(memory=1)4000 pu:1"), std::string("pack:4 nu4 GB( c memory=: 4000pu:2"),
        std::string("pack:2 nu(:4000) pu:1"), std::string("pack:1000[numa][numa][numa]"),
        std::string(100000, '9')}) {
    const std::string shown = synthetic.substr(0, 40);
    uint64_t size = 0;
    EXPECT_EQ(keel_topology_get(synthetic.c_str(), nullptr, &size), KEEL_INVALID_ARGUMENT) << shown;
    EXPECT_EQ(std::string(keel_last_error()).substr(0, 9), "synthetic") << shown;
    EXPECT_EQ(size, 0u);
  }
  EXPECT_EQ(topology("pack:1 core:2 pu:1").at("pus"), 2) << "and the next one is not harmed";
}

// hwloc by itself would use this machine.
TEST_F(TopologyTest, VariableThatCannotBeReadIsNamed) {
  const auto refusal = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
    uint64_t size = 0;
    EXPECT_NE(keel_topology_get(nullptr, nullptr, &size), KEEL_OUT_OF_RANGE) << name;
    EXPECT_EQ(size, 0u) << name;
    const std::string text = keel_last_error();
    EXPECT_EQ(topology("pack:1 core:2 pu:1").at("pus"), 2) << "it is not heeded there";
    unsetenv(name);
    return text;
  };
  const std::string missing = "/nonexistent/machine.xml";
  EXPECT_EQ(refusal("HWLOC_XMLFILE", missing),
            "HWLOC_XMLFILE=" + missing + ": cannot be read: No such file or directory");
  become("this is no machine");
  const std::string text = std::getenv("HWLOC_XMLFILE");
  EXPECT_TRUE(refusal("HWLOC_XMLFILE", text).starts_with("HWLOC_XMLFILE=" + text + ": "));
  EXPECT_TRUE(refusal("HWLOC_FSROOT", missing).starts_with("HWLOC_FSROOT=" + missing + ": "));
  EXPECT_TRUE(
      refusal("HWLOC_CPUID_PATH", missing).starts_with("HWLOC_CPUID_PATH=" + missing + ": "));
  EXPECT_TRUE(refusal("HWLOC_SYNTHETIC", "nonsense").starts_with("HWLOC_SYNTHETIC: "));
  load("fake");
  EXPECT_EQ(topology().at("source"), "machine");
}

TEST_F(TopologyTest, ProcessorTimeThatGroupsLeaveIsToldOfThisMachineAlone) {
  load("fake");
  const CpuLimit limit = CpuLimit::of();
  const json machine = topology();
  if (limit.is_limited()) {
    EXPECT_EQ(machine.at("cpu_limit"), limit.cores());
    EXPECT_NE(machine.at("notes").dump().find(limit.group()), std::string::npos);
  } else {
    EXPECT_TRUE(machine.at("cpu_limit").is_null());
  }
  EXPECT_TRUE(topology("pack:1 core:2 pu:1").at("cpu_limit").is_null());
}

TEST_F(TopologyTest, RefusesBadArguments) {
  EXPECT_EQ(keel_topology_get(nullptr, nullptr, nullptr), KEEL_INVALID_ARGUMENT);
  uint64_t size = 16;
  EXPECT_EQ(keel_topology_get(nullptr, nullptr, &size), KEEL_INVALID_ARGUMENT);
  char text[16];
  EXPECT_EQ(keel_topology_get(nullptr, text, &size), KEEL_OUT_OF_RANGE);
  EXPECT_GT(size, 16u);
}

TEST_F(TopologyTest, DevicesArePlacedByPciAddress) {
  become(kTwoPackagesXml);
  load("fake", {{"devices", "1"}, {"pci_bus", "2"}});                        // fake:0
  load("fake", {{"devices", "1"}, {"pci_bus", "5"}});                        // fake#2:0
  load("fake", {{"devices", "1"}, {"pci_bus", "129"}, {"pci_style", "1"}});  // fake#3:0
  load("fake", {{"devices", "1"}, {"pci_bus", "2"}, {"pci_style", "1"}});    // fake#4:0
  load("fake", {{"devices", "1"}, {"numa", "2"}});                           // fake#5:0
  load("fake", {{"devices", "1"}});                                          // fake#6:0
  // Not in the machine: the device's own report counts.
  load("fake", {{"devices", "1"}, {"pci_bus", "7"}, {"numa", "1"}});  // fake#7:0
  const json machine = topology();
  EXPECT_EQ(machine.at("source"), "file");
  EXPECT_EQ(machine.at("memory_bytes"), 96ull << 30) << "and not this machine's";
  const json& devices = machine.at("devices");
  const struct {
    const char* name;
    json node, by, address;
    int chip;
  } expected[] = {
      {"fake:0", 0, "pci_address", "0000:02:00.0", 0},
      {"fake#2:0", 0, "pci_address", "0000:05:00.0", 1},
      {"fake#3:0", 1, "pci_address", "0000:81:00.0", 2},
      {"fake#4:0", 0, "pci_address", "0000:02:00.0", 0},
      {"fake#5:0", 1, "numa_node", nullptr, 3},
      {"fake#6:0", nullptr, nullptr, nullptr, 4},
      {"fake#7:0", 0, "numa_node", "0000:07:00.0", 5},
  };
  for (const auto& [name, node, by, address, chip] : expected) {
    const json device = named(devices, name);
    EXPECT_EQ(device.at("numa_node"), node) << name;
    EXPECT_EQ(device.at("placed_by"), by) << name;
    EXPECT_EQ(device.at("pci_address"), address) << name;
    EXPECT_EQ(device.at("chip"), chip) << name;
  }
  EXPECT_EQ(named(devices, "fake:0").at("pci_path"),
            json::array({"0000:[00-3f]", "0000:00:01.0", "0000:02:00.0"}));
  EXPECT_TRUE(named(devices, "fake#7:0").at("pci_path").empty());
}

TEST_F(TopologyTest, DistancesFollowThePciTree) {
  become(kTwoPackagesXml);
  load("fake", {{"devices", "2"}, {"pci_bus", "2"}});                      // buses 2 and 3
  load("fake", {{"devices", "1"}, {"pci_bus", "5"}});                      // fake#2:0
  load("fake", {{"devices", "1"}, {"pci_bus", "129"}});                    // fake#3:0
  load("fake", {{"devices", "1"}, {"pci_bus", "2"}, {"pci_style", "1"}});  // fake#4:0
  load("fake", {{"devices", "1"}, {"numa", "1"}});                         // fake#5:0
  load("fake", {{"devices", "1"}});                                        // fake#6:0
  const json machine = topology();
  const struct {
    const char *from, *to, *distance;
  } expected[] = {
      {"fake:0", "fake#4:0", "same_chip"},
      {"fake:0", "fake:1", "same_switch"},
      {"fake:0", "fake#2:0", "same_host_bridge"},
      {"fake:0", "fake#3:0", "across_numa_nodes"},
      {"fake:0", "fake#5:0", "same_numa_node"},
      {"fake:0", "fake#6:0", "unknown"},
      {"fake:0", "mlx5_0", "same_switch"},
      {"fake:0", "eth1", "across_numa_nodes"},
      {"fake#2:0", "ib0", "same_host_bridge"},
      {"fake#3:0", "eth1", "same_host_bridge"},
      {"ib0", "eth1", "none"},
  };
  for (const auto& [from, to, wanted] : expected) {
    EXPECT_EQ(distance(machine, from, to), wanted) << from << " " << to;
  }
}

TEST_F(TopologyTest, NetworkInterfacesHaveAddressAndNode) {
  become(kTwoPackagesXml);
  const json nics = topology().at("nics");
  EXPECT_EQ(nics.size(), 3u) << "none of this machine's: " << nics;
  EXPECT_EQ(named(nics, "mlx5_0"), (json{{"name", "mlx5_0"},
                                         {"kind", "openfabrics"},
                                         {"pci_address", "0000:03:00.0"},
                                         {"numa_node", 0}}));
  EXPECT_EQ(named(nics, "ib0").at("kind"), "network");
  EXPECT_EQ(named(nics, "eth1").at("numa_node"), 1);
}

// hwloc may fall back to this machine or fail, but must not return a part of the file.
TEST_F(TopologyTest, AFileThatIsNoTopologyIsNotBelieved) {
  const std::string whole = kTwoPackagesXml;
  for (const std::string& xml :
       {std::string(), std::string("not XML"), whole.substr(0, whole.size() / 2)}) {
    become(xml);
    std::string text(1 << 20, '\0');
    uint64_t size = text.size();
    const keel_status status = keel_topology_get(nullptr, text.data(), &size);
    if (status == KEEL_OK) {
      EXPECT_EQ(json::parse(text.c_str()).at("source"), "machine");
    } else {
      EXPECT_EQ(status, KEEL_UNAVAILABLE) << keel_last_error();
    }
  }
}

TEST_F(TopologyTest, AnAllocationThatFailsIsSaid) {
  load("fake", {{"devices", "2"}, {"pci_bus", "2"}});
  for (const bool from_file : {false, true}) {
    if (from_file) become(kTwoPackagesXml);
    std::string text(1 << 20, '\0');
    bool failed = true;
    for (int index = 0; failed; ++index) {
      uint64_t size = text.size();
      t_until_failure = index;
      const keel_status status = keel_topology_get(nullptr, text.data(), &size);
      failed = t_until_failure < 0;
      t_until_failure = -1;
      ASSERT_EQ(status, failed ? KEEL_OUT_OF_MEMORY : KEEL_OK)
          << "allocation " << index << ": " << keel_last_error();
      EXPECT_TRUE(failed || index > 20) << "hardly anything is allocated";
    }
    EXPECT_EQ(json::parse(text.c_str()), topology());
  }
}

// ---- chips, with or without hwloc ------------------------------------------------

class ChipApiTest : public KeelTest {
 protected:
  static uint32_t chip(keel_device device) {
    uint32_t number = UINT32_MAX;
    EXPECT_KEEL_OK(keel_device_chip(device, &number));
    return number;
  }
};

TEST_F(ChipApiTest, TwoBackendsMeetInOneChip) {
  const auto first = load("fake", {{"pci_bus", "59"}});                       // 3b and 3c
  const auto second = load("fake", {{"pci_bus", "60"}, {"pci_style", "1"}});  // 3C and 3D
  const auto third = load("fake_polled", {{"devices", "1"}, {"uuid", "9"}});
  const auto fourth = load("fake", {{"devices", "1"}, {"uuid", "9"}});
  const auto lone = load("fake", {{"devices", "2"}});
  EXPECT_EQ(chip(first[0]), 0u);
  EXPECT_EQ(chip(first[1]), 1u);
  EXPECT_EQ(chip(second[0]), 1u);
  EXPECT_EQ(chip(second[1]), 2u);
  EXPECT_EQ(chip(third[0]), 3u);
  EXPECT_EQ(chip(fourth[0]), 3u);
  EXPECT_EQ(chip(lone[0]), 4u);
  EXPECT_EQ(chip(lone[1]), 5u);
}

TEST_F(ChipApiTest, RefusesBadArguments) {
  const auto devices = load("fake");
  EXPECT_EQ(keel_device_chip(devices[0], nullptr), KEEL_INVALID_ARGUMENT);
  uint32_t number = 17;
  EXPECT_EQ(keel_device_chip({12345}, &number), KEEL_INVALID_HANDLE);
  EXPECT_EQ(number, 17u);
}

}  // namespace
}  // namespace keel::testing
