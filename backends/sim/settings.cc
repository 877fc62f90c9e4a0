// SPDX-License-Identifier: Apache-2.0
#include "backends/sim/settings.h"

#include <algorithm>
#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/settings.h"

namespace keel::sim {
namespace {

constexpr std::string_view kKeys[] = {
    "devices", "profile", "memory_mib", "single_queue", "pageable_async", "delay_us",
    "seed",    "faults",  "ccl",        "conformance",  "compute"};

using Values = emulator::SettingValues;

keel_status put(std::string_view key, std::string_view value, Values* values) {
  if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "sim: setting '%.*s' is not known",
                     static_cast<int>(std::min<size_t>(key.size(), 64)), key.data());
  }
  (*values)[std::string(key)] = value;
  return KEEL_OK;
}

// secure_getenv: the user of a privileged process must not control its settings.
const char* variable(const char* name) {
  const char* const text = secure_getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

keel_status read_environment(Values* values) {
  if (const char* const text = variable("KEEL_SIM_SETTINGS")) {
    for (std::string_view rest = text; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view pair = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (pair.empty()) continue;
      const size_t equals = std::min(pair.find('='), pair.size());
      const keel_status status =
          put(pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size())), values);
      if (status != KEEL_OK) return status;
    }
  }
  if (const char* const text = variable("KEEL_SIM_DEVICES")) (*values)["devices"] = text;
  if (const char* const text = variable("KEEL_SIM_PROFILE")) (*values)["profile"] = text;
  return KEEL_OK;
}

// Parses type names separated by commas, "none" or "all".
keel_status read_types(std::string_view text, emulator::ccl::TypeSet* out_types) {
  namespace ccl = emulator::ccl;
  *out_types = 0;
  if (text == "none") return KEEL_OK;
  if (text == "all") {
    *out_types = ccl::kAllTypes;
    return KEEL_OK;
  }
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, comma);
    const auto* const found = std::find(ccl::kTypeNames.begin(), ccl::kTypeNames.end(), name);
    if (found == ccl::kTypeNames.end()) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "sim: ccl: '%.*s' is no type, nor none or all",
                       static_cast<int>(std::min<size_t>(name.size(), 64)), name.data());
    }
    *out_types |= 1u << (found - ccl::kTypeNames.begin());
    if (comma == text.size()) return KEEL_OK;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

keel_status read_settings(const keel_instance_settings* given, Settings* out_settings) {
  Values values;
  keel_status status = read_environment(&values);
  for (uint32_t i = 0; status == KEEL_OK && given != nullptr && i < given->count; ++i) {
    status = put(given->keys[i], given->values[i], &values);
  }
  if (status != KEEL_OK) return status;

  emulator::ChipSettings chips;
  chips.devices = values.contains("profile") ? 1 : 0;
  uint64_t pageable_async = 0;
  uint64_t conformance = 0;
  emulator::Status taken = emulator::take_chip_settings(&values, &chips);
  if (taken.ok()) taken = emulator::take_number(&values, "pageable_async", 0, 1, &pageable_async);
  if (taken.ok()) taken = emulator::take_number(&values, "conformance", 0, 1, &conformance);
  if (!taken.ok()) return kit::fail(KEEL_INVALID_ARGUMENT, "sim: %s", taken.text().c_str());
  Settings settings;
  settings.devices = chips.devices;
  settings.device = std::move(chips.device);
  settings.device.pageable_async = pageable_async != 0;
  settings.device.conformance = conformance != 0;
  if (const auto types = values.find("ccl"); types != values.end()) {
    status = read_types(types->second, &settings.ccl);
    if (status != KEEL_OK) return status;
  }
  *out_settings = std::move(settings);
  return KEEL_OK;
}

}  // namespace keel::sim
