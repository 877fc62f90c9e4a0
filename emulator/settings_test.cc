// SPDX-License-Identifier: Apache-2.0
#include "emulator/settings.h"

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

TEST(SettingsTest, PairsAreSplitAtSpaces) {
  SettingValues values;
  expect_ok(split_settings("  devices=3 faults=fill=2,lose@1  empty= ", &values));
  EXPECT_EQ(values, (SettingValues{{"devices", "3"}, {"faults", "fill=2,lose@1"}, {"empty", ""}}));
  for (const char* text : {"devices", "=3", "devices=1 x"}) {
    expect_fails(Code::kInvalidArgument, "is no key=value", split_settings(text, &values));
  }
}

TEST(SettingsTest, KeysOfChipsAreTaken) {
  SettingValues values;
  expect_ok(
      split_settings("devices=3 memory_mib=16 single_queue=1 delay_us=5 seed=9 "
                     "faults=lose@7 compute=none uuid=00010203-0405-0607-0809-0a0b0c0d0eff other=1",
                     &values));
  ChipSettings settings;
  expect_ok(take_chip_settings(&values, &settings));
  EXPECT_EQ(settings.devices, 3u);
  EXPECT_EQ(settings.device.memory_bytes, uint64_t{16} << 20);
  EXPECT_TRUE(settings.device.single_queue);
  EXPECT_EQ(settings.device.delay_us, 5u);
  EXPECT_EQ(settings.device.seed, 9u);
  EXPECT_EQ(settings.device.faults.size(), 1u);
  EXPECT_FALSE(settings.device.computes);
  ASSERT_TRUE(settings.uuid);
  EXPECT_EQ((*settings.uuid)[1], 1);
  EXPECT_EQ((*settings.uuid)[15], 0xff);
  EXPECT_EQ(values, (SettingValues{{"other", "1"}}));
}

TEST(SettingsTest, ABadValueIsNamedAndNothingIsTakenOver) {
  for (const char* text :
       {"devices=65", "devices=", "memory_mib=0", "delay_us=x", "seed=-1", "single_queue=2",
        "compute=1", "uuid=12", "uuid=000102030405060708090a0b0c0d0e0g", "faults=explode@1",
        "profile=/nowhere/at/all"}) {
    SettingValues values;
    expect_ok(split_settings(std::string("devices=2 ") + text, &values));
    ChipSettings settings;
    const std::string key(text, std::string_view(text).find('='));
    expect_fails(Code::kInvalidArgument, key, take_chip_settings(&values, &settings));
    EXPECT_EQ(settings.devices, 1u);
  }
}

}  // namespace
}  // namespace keel::emulator
