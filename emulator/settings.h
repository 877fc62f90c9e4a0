// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SETTINGS_H_
#define KEEL_EMULATOR_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/status.h"

namespace keel::emulator {

using SettingValues = std::map<std::string, std::string, std::less<>>;

// What the chips behind a face are asked to be: docs/emulator.md lists the keys.
struct ChipSettings {
  uint32_t devices = 1;
  DeviceOptions device;
};

// Pairs "key=value" with spaces between. kInvalidArgument for one without a key.
Status split_settings(std::string_view text, SettingValues* out_values);
// Takes the keys of chips out of |values|. kInvalidArgument names the one that has a bad value;
// members that no key is there for are left.
Status take_chip_settings(SettingValues* values, ChipSettings* in_out_settings);
// Takes a whole number from |least| to |most| out of |values|; |*out_number| is left where the
// key is not there.
Status take_number(SettingValues* values, const char* key, uint64_t least, uint64_t most,
                   uint64_t* out_number);

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_SETTINGS_H_
