// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/socket_address.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>

namespace keel {
namespace {

TEST(SocketAddressTest, ParseReadsWhatTextWrites) {
  for (const std::string text : {"10.0.0.1:4711", "[::1]:1", "0.0.0.0:0", "[2001:db8::1]:65535"}) {
    SocketAddress address;
    ASSERT_TRUE(SocketAddress::parse(text, &address)) << text;
    EXPECT_EQ(address.text(), text);
  }
}

TEST(SocketAddressTest, NamesAndHalfAddressesAreNotParsed) {
  SocketAddress address;
  for (const char* text :
       {"", ":", "1", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:1 ",
        "10.0.0:1", "localhost:1", "::1:1", "[]:1", "[10.0.0.1]:1", "[::1]"}) {
    EXPECT_FALSE(SocketAddress::parse(text, &address)) << text;
  }
}

TEST(SocketAddressTest, LoopbackIsKnown) {
  for (const auto& [text, expected] : std::map<std::string, bool>{{"127.9.9.9:1", true},
                                                                  {"10.0.0.1:1", false},
                                                                  {"[::1]:1", true},
                                                                  {"[::ffff:127.0.0.1]:1", true},
                                                                  {"[2001:db8::1]:1", false}}) {
    SocketAddress address;
    ASSERT_TRUE(SocketAddress::parse(text, &address)) << text;
    EXPECT_EQ(address.is_loopback(), expected) << text;
  }
}

TEST(SocketAddressTest, NumberResolvesToItself) {
  std::vector<SocketAddress> found;
  EXPECT_EQ(SocketAddress::resolve("127.0.0.1", 7, &found), "");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(), "127.0.0.1:7");
  // Longer than a name may be, so that no name server is asked.
  const std::string why = SocketAddress::resolve(std::string(70, 'x'), 7, &found);
  EXPECT_TRUE(why.starts_with("does not resolve to an address: ")) << why;
}

TEST(SocketAddressTest, InterfacesAreFoundByName) {
  SocketAddress address;
  ASSERT_EQ(SocketAddress::of_interface("lo", &address), 0);
  EXPECT_TRUE(address.is_loopback());
  EXPECT_EQ(address.port(), 0);
  EXPECT_EQ(SocketAddress::of_interface("keel-none", &address), ENODEV);
}

TEST(SocketAddressTest, NameOfTheWrongLengthIsNoAddress) {
  EXPECT_EQ(SocketAddress::named("").size(), 0u);
  EXPECT_EQ(SocketAddress::named(std::string(SocketAddress::kMostName + 1, 'x')).size(), 0u);
  const SocketAddress longest = SocketAddress::named(std::string(SocketAddress::kMostName, 'x'));
  EXPECT_EQ(longest.family(), AF_UNIX);
  EXPECT_EQ(longest.get()->sa_data[0], '\0');
}

}  // namespace
}  // namespace keel
