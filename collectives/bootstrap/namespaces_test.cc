// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/namespaces.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

namespace keel {
namespace {

TEST(NamespacesTest, NumberIsThatOfTheLink) {
  std::array<char, 64> link = {};
  ASSERT_GT(readlink("/proc/self/ns/pid", link.data(), link.size() - 1), 0);
  EXPECT_EQ("pid:[" + std::to_string(namespace_number("pid")) + "]", link.data());
  EXPECT_EQ(namespace_number("none"), 0u);
}

TEST(NamespacesTest, ConditionsHaveTheValuesOfThisProcess) {
  const std::string text = rendezvous_conditions();
  EXPECT_NE(text.find("uid " + std::to_string(geteuid())), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(namespace_number("net"))), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(namespace_number("pid"))), std::string::npos) << text;
}

}  // namespace
}  // namespace keel
