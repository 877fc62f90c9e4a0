// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SETTINGS_H_
#define KEEL_EMULATOR_SETTINGS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/status.h"

namespace keel::emulator {

using SettingValues = std::map<std::string, std::string, std::less<>>;

// The configuration of the chips behind a shim; docs/emulator.md lists the keys.
struct ChipSettings {
  uint32_t devices = 1;
  DeviceOptions device;
  // The UUID of device 0, where the driver has UUIDs: as another driver of that chip reports it.
  std::optional<std::array<uint8_t, 16>> uuid;
};

// Parses "key=value" pairs separated by spaces. Returns kInvalidArgument for a pair without a key.
Status split_settings(std::string_view text, SettingValues* out_values);
// Removes the keys of chips from |values| and applies them. Returns kInvalidArgument, naming the
// key with a bad value; members without a key keep their values.
Status take_chip_settings(SettingValues* values, ChipSettings* in_out_settings);
// Removes |key|, a whole number from |least| to |most|, from |values|; leaves |*out_number|
// unchanged if |key| is absent.
Status take_number(SettingValues* values, const char* key, uint64_t least, uint64_t most,
                   uint64_t* out_number);

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_SETTINGS_H_
