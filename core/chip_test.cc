// SPDX-License-Identifier: Apache-2.0
#include "core/chip.h"

#include <gtest/gtest.h>

#include <keel/plugin_kit.hpp>

namespace keel {
namespace {

keel_device_info device(const char* pci_address, uint8_t uuid = 0) {
  keel_device_info info = {};
  kit::copy_text(info.pci_address, pci_address);
  info.uuid[3] = uuid;
  return info;
}

using Chips = std::vector<uint32_t>;

TEST(Chip, IdKeepsThePciAddress) {
  for (const char* text : {"0000:3b:1f.1", "10000:01:00.0"}) {
    EXPECT_EQ(ChipId::of(device(text)).pci_address(), parse_pci_address(text)) << text;
  }
  EXPECT_FALSE(ChipId::of(device("", 7)).pci_address());
}

TEST(Chip, AddressesAreReadAsVendorsWriteThem) {
  const PciAddress wanted{0, 0x3b, 0x1f, 1};
  for (const char* text : {"0000:3b:1f.1", "3B:1F.1", "00000000:3B:1f.1", "0:3b:1f.1"}) {
    const auto address = parse_pci_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(*address, wanted) << text;
    EXPECT_EQ(address->text(), "0000:3b:1f.1");
  }
  EXPECT_EQ(parse_pci_address("10000:01:00.0")->domain, 0x10000u) << "behind a VMD controller";
}

TEST(Chip, WhatIsNoAddressIsNone) {
  for (const char* text :
       {"", "3b", "3b:00", ":.", "0000:3b:00.", "0000::00.0", ":3b:00.0", "0000:3b:20.0",
        "0000:3b:00.8", "0000:1ff:00.0", "0000:3b:00.0 ", "-1:3b:00.0", "100000000:3b:00.0",
        "0000:3b:0g.0", "a:b:c:d.0", "0.0:3b:00"}) {
    EXPECT_FALSE(parse_pci_address(text)) << text;
  }
}

TEST(Chip, OneAddressIsOneChip) {
  EXPECT_EQ(number_chips({device("0000:3b:00.0"), device("0000:5e:00.0"), device("3B:00.0")}),
            (Chips{0, 1, 0}));
}

TEST(Chip, OneUuidIsOneChip) {
  EXPECT_EQ(number_chips({device("", 7), device("", 8), device("", 7)}), (Chips{0, 1, 0}));
}

TEST(Chip, WithoutAddressAndUuidEachIsItsOwn) {
  EXPECT_EQ(number_chips({device(""), device(""), device("nonsense"), device("nonsense")}),
            (Chips{0, 1, 2, 3}));
}

// Only the third device has both address and UUID; the last shows that numbers have no gaps.
TEST(Chip, AThirdDeviceTiesTwoTogether) {
  EXPECT_EQ(number_chips({device("3b:00.0"), device("", 7), device("3b:00.0", 7), device("")}),
            (Chips{0, 0, 0, 1}));
  EXPECT_TRUE(number_chips({}).empty());
}

}  // namespace
}  // namespace keel
