// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_interfaces.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace keel {
namespace {

using Reason = ChosenInterface::Reason;

SocketAddress address(const std::string& host) {
  SocketAddress parsed;
  const bool is_six = host.find(':') != std::string::npos;
  EXPECT_TRUE(SocketAddress::parse((is_six ? "[" + host + "]" : host) + ":0", &parsed)) << host;
  return parsed;
}

HostInterface interface(const std::string& name, const std::vector<std::string>& addresses,
                        bool is_physical = true, bool is_up = true) {
  HostInterface made;
  made.name = name;
  for (const std::string& each : addresses) made.addresses.push_back(address(each));
  made.is_up = is_up;
  made.is_physical = is_physical;
  return made;
}

// A host with a network for its management, four NICs for the job, and what containers add.
std::vector<HostInterface> host() {
  return {interface("lo", {"127.0.0.1", "::1"}, /*is_physical=*/false),
          interface("eth0", {"10.1.0.7", "2001:db8::7"}),
          interface("ib0", {"10.2.0.7"}),
          interface("ib1", {"10.2.1.7"}),
          interface("ib2", {"10.2.2.7"}, /*is_physical=*/true, /*is_up=*/false),
          interface("ib3", {}),
          interface("docker0", {"172.17.0.1"}, /*is_physical=*/false),
          interface("bond0", {"10.3.0.7"}, /*is_physical=*/false)};
}

class Choice {
 public:
  Choice(const std::string& setting, const std::string& route,
         std::map<std::string, std::string> distances = {}, uint32_t turn = 0) {
    const auto measure = [&](const std::vector<HostInterface>& interfaces) {
      std::vector<std::string> measured;
      for (const HostInterface& each : interfaces) {
        const auto found = distances.find(each.name);
        measured.push_back(found == distances.end() ? "unknown" : found->second);
        names_ += each.name + " ";
      }
      return measured;
    };
    status_ =
        choose_interface({setting, address(route), turn}, host(), measure, &chosen_, &unusable_);
  }
  const Status& status() const { return status_; }
  const ChosenInterface& chosen() const { return chosen_; }
  const std::string& unusable() const { return unusable_; }
  const std::string& measured() const { return names_; }

 private:
  std::string names_;
  Status status_;
  ChosenInterface chosen_;
  std::string unusable_;
};

TEST(ChooseInterfaceTest, NearestOfTheListIsChosen) {
  const Choice choice("ib0,ib1,bond0", "10.1.0.7",
                      {{"ib0", "across_numa_nodes"}, {"ib1", "same_switch"}});
  ASSERT_TRUE(choice.status().ok());
  EXPECT_EQ(choice.chosen().name, "ib1");
  EXPECT_EQ(choice.chosen().address.host(), "10.2.1.7");
  EXPECT_EQ(choice.chosen().reason, Reason::kNearest);
  EXPECT_EQ(choice.chosen().distance, "same_switch");
  EXPECT_EQ(choice.unusable(), "");
}

TEST(ChooseInterfaceTest, DistancesHaveTheirOrder) {
  const std::vector<std::string> order = {"same_chip",      "same_switch",       "same_host_bridge",
                                          "same_numa_node", "across_numa_nodes", "unknown"};
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const Choice choice("ib0,ib1", "10.1.0.7", {{"ib0", order[i + 1]}, {"ib1", order[i]}});
    EXPECT_EQ(choice.chosen().name, "ib1") << order[i];
  }
}

TEST(ChooseInterfaceTest, EquallyNearOnesOfTheListAreTakenInTurn) {
  const std::map<std::string, std::string> distances = {
      {"eth0", "same_host_bridge"}, {"ib0", "same_numa_node"}, {"ib1", "same_host_bridge"}};
  std::string names;
  for (uint32_t turn = 0; turn < 4; ++turn) {
    const Choice choice("eth0,ib0,ib1", "10.1.0.7", distances, turn);
    EXPECT_EQ(choice.chosen().reason, Reason::kLocalRank);
    EXPECT_EQ(choice.chosen().distance, "same_host_bridge");
    names += choice.chosen().name + " ";
  }
  EXPECT_EQ(names, "eth0 ib1 eth0 ib1 ");
}

TEST(ChooseInterfaceTest, UnusableOnesOfTheListAreToldAndLeftOut) {
  const Choice choice("ib2,ib3,ib9,ib0", "10.1.0.7");
  ASSERT_TRUE(choice.status().ok());
  EXPECT_EQ(choice.chosen().name, "ib0");
  EXPECT_EQ(choice.chosen().reason, Reason::kNamed);
  EXPECT_EQ(choice.unusable(), "ib2 is down, ib3 has no IPv4 address, ib9 does not exist");
  EXPECT_EQ(choice.measured(), "") << "one is left";
}

TEST(ChooseInterfaceTest, ListOfUnusableOnesIsRefused) {
  const Choice choice("ib2,ib3", "10.1.0.7");
  EXPECT_EQ(choice.status().code(), KEEL_NOT_FOUND);
  EXPECT_STREQ(choice.status().text(),
               "KEEL_INTERFACE is 'ib2,ib3': ib2 is down, ib3 has no IPv4 address");
  EXPECT_STREQ(Choice(",", "10.1.0.7").status().text(),
               "KEEL_INTERFACE is ',': it names no interface");
}

TEST(ChooseInterfaceTest, FamilyIsThatOfTheServersAddress) {
  const Choice choice("ib0,eth0", "2001:db8::8");
  ASSERT_TRUE(choice.status().ok());
  EXPECT_EQ(choice.chosen().address.host(), "2001:db8::7");
  EXPECT_EQ(choice.unusable(), "ib0 has no IPv6 address");
}

TEST(ChooseInterfaceTest, AddressesMayBeListed) {
  const Choice choice("10.2.0.7,127.0.0.9", "10.1.0.7", {{"ib0", "same_numa_node"}});
  ASSERT_TRUE(choice.status().ok());
  EXPECT_EQ(choice.chosen().name, "ib0");
  const Choice other("127.0.0.9,::1", "10.1.0.7");
  EXPECT_EQ(other.chosen().name, "") << "an address of the loopback network that it does not list";
  EXPECT_EQ(other.chosen().address.host(), "127.0.0.9");
}

TEST(ChooseInterfaceTest, ListedAddressesBelongToAnInterfaceThatIsUp) {
  const Choice choice("10.2.0.8,10.2.2.7,10.2.1.7", "10.1.0.7");
  ASSERT_TRUE(choice.status().ok());
  EXPECT_EQ(choice.chosen().name, "ib1");
  EXPECT_EQ(choice.unusable(), "no interface has 10.2.0.8, 10.2.2.7 is down");
}

TEST(ChooseInterfaceTest, AddressOfTheRouteIsPreferredOnItsInterface) {
  const std::vector<HostInterface> two = {interface("eth0", {"fd00::7", "2001:db8::7"}),
                                          interface("eth1", {"2001:db8:1::7"})};
  const auto measure = [](const std::vector<HostInterface>& interfaces) {
    return std::vector<std::string>(interfaces.size(), "unknown");
  };
  for (const std::string setting : {"nearest", "eth0,eth9"}) {
    ChosenInterface chosen;
    std::string unusable;
    ASSERT_TRUE(
        choose_interface({setting, address("2001:db8::7"), 0}, two, measure, &chosen, &unusable)
            .ok());
    EXPECT_EQ(chosen.name, "eth0") << setting;
    EXPECT_EQ(chosen.address.host(), "2001:db8::7") << setting;
  }
}

TEST(ChooseInterfaceTest, NearestConsidersPhysicalInterfacesOnly) {
  const Choice choice("nearest", "10.1.0.7", {{"ib1", "same_switch"}});
  ASSERT_TRUE(choice.status().ok());
  EXPECT_EQ(choice.measured(), "eth0 ib0 ib1 ");
  EXPECT_EQ(choice.chosen().name, "ib1");
  EXPECT_EQ(choice.chosen().reason, Reason::kNearest);
}

TEST(ChooseInterfaceTest, NearestPrefersTheRouteAmongEqualOnes) {
  for (uint32_t turn = 0; turn < 3; ++turn) {
    const Choice route("nearest", "10.1.0.7", {}, turn);
    EXPECT_EQ(route.chosen().name, "eth0");
    EXPECT_EQ(route.chosen().reason, Reason::kRoute);
    const Choice other("nearest", "10.1.0.7", {{"ib0", "same_switch"}, {"ib1", "same_switch"}},
                       turn);
    EXPECT_EQ(other.chosen().name, turn % 2 == 0 ? "ib0" : "ib1");
  }
}

TEST(ChooseInterfaceTest, NearestWithoutACandidateIsTheRoutes) {
  const Choice loopback("nearest", "127.0.0.1", {{"ib0", "same_switch"}});
  EXPECT_EQ(loopback.chosen().name, "lo");
  EXPECT_EQ(loopback.chosen().reason, Reason::kRoute);
  ChosenInterface chosen;
  std::string unusable;
  const std::vector<HostInterface> container = {interface("eth0", {"172.17.0.2"}, false)};
  ASSERT_TRUE(
      choose_interface({"nearest", address("172.17.0.2"), 1}, container, {}, &chosen, &unusable)
          .ok());
  EXPECT_EQ(chosen.name, "eth0");
  EXPECT_EQ(chosen.reason, Reason::kRoute);
}

TEST(NamedInterfacesTest, ListIsSplitAtCommas) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(named_interfaces("ib0,ib1"), Names({"ib0", "ib1"}));
  EXPECT_EQ(named_interfaces(",ib0,,"), Names({"ib0"}));
  EXPECT_EQ(named_interfaces(" ib0, ib1 "), Names({"ib0", "ib1"}));
  EXPECT_EQ(named_interfaces("2001:db8::7"), Names({"2001:db8::7"}));
  EXPECT_EQ(named_interfaces(""), Names());
  EXPECT_EQ(named_interfaces("nearest"), Names());
}

}  // namespace
}  // namespace keel
