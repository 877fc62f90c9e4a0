// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/bootstrap_address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace keel {
namespace {

keel_unique_id id_of(const std::string& text) {
  keel_unique_id id = {};
  text.copy(id.text, sizeof(id.text) - 1);
  return id;
}

TEST(BootstrapAddressTest, RandomOnesDiffer) {
  BootstrapAddress one;
  BootstrapAddress other;
  ASSERT_TRUE(BootstrapAddress::random(&one).ok());
  ASSERT_TRUE(BootstrapAddress::random(&other).ok());
  EXPECT_NE(one.text(), other.text());
  EXPECT_TRUE(one.text().starts_with("keel-1:unix:")) << one.text();
  BootstrapAddress read;
  ASSERT_TRUE(BootstrapAddress::parse(one.id(), &read).ok());
  EXPECT_EQ(read.text(), one.text());
  EXPECT_EQ(read.socket_name(), one.socket_name());
  EXPECT_EQ(read.absence(), Absence::kFails);
}

TEST(BootstrapAddressTest, NamedOnesAgree) {
  const std::string long_name(10'000, 'n');
  for (const std::string& name : {std::string(), std::string("a b\n"), long_name}) {
    const BootstrapAddress place = BootstrapAddress::named(name);
    EXPECT_EQ(place.text(), BootstrapAddress::named(name).text());
    EXPECT_NE(place.text(), BootstrapAddress::named(name + "2").text());
    EXPECT_NE(place.text().find(std::to_string(geteuid()) + "-"), std::string::npos);
    EXPECT_LE(place.socket_name().size(), 107u);
    BootstrapAddress read;
    ASSERT_TRUE(BootstrapAddress::parse(place.id(), &read).ok());
    EXPECT_EQ(read.socket_name(), place.socket_name());
    EXPECT_EQ(read.absence(), Absence::kIsWaitedFor);
  }
  // The published 128-bit FNV-1a: the empty text hashes to the offset basis, here in memory order.
  EXPECT_TRUE(BootstrapAddress::named("").text().ends_with("-8dc595627521b8624201bb072e27626c"))
      << BootstrapAddress::named("").text();
}

TEST(BootstrapAddressTest, IdsThatAreNone) {
  const std::string digits(32, 'a');
  keel_unique_id endless = {};
  std::memset(endless.text, 'a', sizeof(endless.text));
  BootstrapAddress place;
  Status status = BootstrapAddress::parse(endless, &place);
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(std::string(status.text()).starts_with("id ")) << status.text();
  ASSERT_TRUE(BootstrapAddress::parse(id_of("keel-1:unix:" + digits), &place).ok());
  for (const std::string& text :
       {std::string(), std::string("keel-1:unix:"), "keel-2:unix:" + digits,
        "keel-1:unix:" + digits + "a", "keel-1:unix:" + digits.substr(1),
        "keel-1:unix:" + digits.substr(1) + "G", "keel-1:unix:" + digits.substr(1) + "A",
        "keel-1:name:" + digits, "keel-1:name:-" + digits, "keel-1:name:x-" + digits,
        "keel-1:name:12345678901-" + digits, "keel-1:name:0-0" + digits,
        std::string("\x01\xff\n")}) {
    status = BootstrapAddress::parse(id_of(text), &place);
    EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT) << text;
    EXPECT_TRUE(std::string(status.text()).starts_with("id ")) << status.text();
    EXPECT_EQ(std::string(status.text()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace keel
