// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/meeting_place.h"

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

TEST(MeetingPlaceTest, RandomOnesDiffer) {
  MeetingPlace one;
  MeetingPlace other;
  ASSERT_TRUE(MeetingPlace::random(&one).ok());
  ASSERT_TRUE(MeetingPlace::random(&other).ok());
  EXPECT_NE(one.text(), other.text());
  EXPECT_TRUE(one.text().starts_with("keel-1:unix:")) << one.text();
  MeetingPlace read;
  ASSERT_TRUE(MeetingPlace::parse(one.id(), &read).ok());
  EXPECT_EQ(read.text(), one.text());
  EXPECT_EQ(read.socket_name(), one.socket_name());
  EXPECT_EQ(read.absence(), Absence::kFails);
}

TEST(MeetingPlaceTest, NamedOnesAgree) {
  const std::string long_name(10'000, 'n');
  for (const std::string& name : {std::string(), std::string("a b\n"), long_name}) {
    const MeetingPlace place = MeetingPlace::named(name);
    EXPECT_EQ(place.text(), MeetingPlace::named(name).text());
    EXPECT_NE(place.text(), MeetingPlace::named(name + "2").text());
    EXPECT_NE(place.text().find(std::to_string(geteuid()) + "-"), std::string::npos);
    EXPECT_LE(place.socket_name().size(), 107u);
    MeetingPlace read;
    ASSERT_TRUE(MeetingPlace::parse(place.id(), &read).ok());
    EXPECT_EQ(read.socket_name(), place.socket_name());
    EXPECT_EQ(read.absence(), Absence::kIsWaitedFor);
  }
  // The published 128-bit FNV-1a: the empty text hashes to the offset basis, here in memory order.
  EXPECT_TRUE(MeetingPlace::named("").text().ends_with("-8dc595627521b8624201bb072e27626c"))
      << MeetingPlace::named("").text();
}

TEST(MeetingPlaceTest, IdsThatAreNone) {
  const std::string digits(32, 'a');
  keel_unique_id endless = {};
  std::memset(endless.text, 'a', sizeof(endless.text));
  MeetingPlace place;
  Status status = MeetingPlace::parse(endless, &place);
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(std::string(status.text()).starts_with("id ")) << status.text();
  ASSERT_TRUE(MeetingPlace::parse(id_of("keel-1:unix:" + digits), &place).ok());
  for (const std::string& text :
       {std::string(), std::string("keel-1:unix:"), "keel-2:unix:" + digits,
        "keel-1:unix:" + digits + "a", "keel-1:unix:" + digits.substr(1),
        "keel-1:unix:" + digits.substr(1) + "G", "keel-1:unix:" + digits.substr(1) + "A",
        "keel-1:name:" + digits, "keel-1:name:-" + digits, "keel-1:name:x-" + digits,
        "keel-1:name:12345678901-" + digits, "keel-1:name:0-0" + digits,
        std::string("\x01\xff\n")}) {
    status = MeetingPlace::parse(id_of(text), &place);
    EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT) << text;
    EXPECT_TRUE(std::string(status.text()).starts_with("id ")) << status.text();
    EXPECT_EQ(std::string(status.text()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace keel
