// SPDX-License-Identifier: Apache-2.0
#include "emulator/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace keel::emulator {
namespace {

// Removes |key| and returns its value in |*out_value|; false if |key| is absent.
bool take(SettingValues* values, std::string_view key, std::string* out_value) {
  const auto found = values->find(key);
  if (found == values->end()) return false;
  *out_value = std::move(found->second);
  values->erase(found);
  return true;
}

Status take_flag(SettingValues* values, const char* key, bool* out_flag) {
  uint64_t number = *out_flag ? 1 : 0;
  Status status = take_number(values, key, 0, 1, &number);
  *out_flag = number != 0;
  return status;
}

// "full" or "none".
Status take_compute(SettingValues* values, bool* out_computes) {
  std::string text;
  if (!take(values, "compute", &text)) return {};
  if (text != "full" && text != "none") {
    return {Code::kInvalidArgument,
            fmt::format("compute is '{:.64}', neither full nor none", text)};
  }
  *out_computes = text == "full";
  return {};
}

// 32 hexadecimal digits, with dashes anywhere.
Status take_uuid(SettingValues* values, std::optional<std::array<uint8_t, 16>>* out_uuid) {
  std::string text;
  if (!take(values, "uuid", &text)) return {};
  std::string digits = text;
  std::erase(digits, '-');
  std::array<uint8_t, 16> uuid = {};
  bool is_good = digits.size() == 2 * uuid.size();
  for (size_t i = 0; is_good && i < uuid.size(); ++i) {
    const char* const begin = digits.data() + 2 * i;
    const auto [rest, error] = std::from_chars(begin, begin + 2, uuid[i], 16);
    is_good = error == std::errc() && rest == begin + 2;
  }
  if (!is_good) {
    return {Code::kInvalidArgument, fmt::format("uuid is '{:.64}', not 32 digits", text)};
  }
  *out_uuid = uuid;
  return {};
}

}  // namespace

Status split_settings(std::string_view text, SettingValues* out_values) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return {Code::kInvalidArgument, fmt::format("'{}' is no key=value", pair.substr(0, 64))};
    }
    (*out_values)[std::string(pair.substr(0, equals))] = pair.substr(equals + 1);
  }
  return {};
}

Status take_number(SettingValues* values, const char* key, uint64_t least, uint64_t most,
                   uint64_t* out_number) {
  std::string text;
  if (!take(values, key, &text)) return {};
  uint64_t read = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, read);
  if (error != std::errc() || rest != end || read < least || read > most) {
    return {Code::kInvalidArgument,
            fmt::format("{} is '{:.64}', not a number from {} to {}", key, text, least, most)};
  }
  *out_number = read;
  return {};
}

Status take_chip_settings(SettingValues* values, ChipSettings* in_out_settings) {
  ChipSettings settings = *in_out_settings;
  DeviceOptions& device = settings.device;
  std::string text;
  Status status;
  if (take(values, "profile", &text)) {
    status = read_profile(text, &device.profile.emplace());
    if (!status.ok()) return {status.code(), "profile: " + status.text()};
    if (device.profile->memory_bytes != 0) device.memory_bytes = device.profile->memory_bytes;
  }
  if (take(values, "faults", &text)) {
    status = parse_faults(text, &device.faults);
    if (!status.ok()) return {status.code(), "faults: " + status.text()};
  }
  uint64_t devices = settings.devices;
  uint64_t memory_mib = 0;
  uint64_t delay_us = device.delay_us;
  status = take_number(values, "devices", 0, 64, &devices);
  if (status.ok()) status = take_number(values, "memory_mib", 1, 256 << 10, &memory_mib);
  if (status.ok()) status = take_number(values, "delay_us", 0, 1'000'000, &delay_us);
  if (status.ok()) status = take_number(values, "seed", 0, UINT64_MAX, &device.seed);
  if (status.ok()) status = take_flag(values, "single_queue", &device.single_queue);
  if (status.ok()) status = take_compute(values, &device.computes);
  if (status.ok()) status = take_uuid(values, &settings.uuid);
  if (!status.ok()) return status;
  settings.devices = static_cast<uint32_t>(devices);
  device.delay_us = static_cast<uint32_t>(delay_us);
  if (memory_mib != 0) device.memory_bytes = memory_mib << 20;
  *in_out_settings = std::move(settings);
  return {};
}

}  // namespace keel::emulator
