#include "backends/sim/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <map>
#include <string>
#include <string_view>

namespace keel::sim {
namespace {

constexpr std::string_view kKeys[] = {"devices",      "profile",        "memory_mib",
                                      "single_queue", "pageable_async", "delay_us",
                                      "seed",         "faults",         "ccl"};

using Values = std::map<std::string, std::string, std::less<>>;

keel_status put(std::string_view key, std::string_view value, Values* values) {
  if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "sim: setting '%.*s' is not known",
                     static_cast<int>(std::min<size_t>(key.size(), 64)), key.data());
  }
  (*values)[std::string(key)] = value;
  return KEEL_OK;
}

// The environment of a process with more rights than its user is not the user's to set.
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

// Leaves |*out_number| where |key| is not set.
template <typename Number>
keel_status number(const Values& values, const char* key, uint64_t least, uint64_t most,
                   Number* out_number) {
  const auto found = values.find(key);
  if (found == values.end()) return KEEL_OK;
  const std::string& text = found->second;
  uint64_t read = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, read);
  if (error != std::errc() || rest != end || read < least || read > most) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "sim: %s is '%.64s', not a number from %llu to %llu",
                     key, text.c_str(), static_cast<unsigned long long>(least),
                     static_cast<unsigned long long>(most));
  }
  *out_number = static_cast<Number>(read);
  return KEEL_OK;
}

keel_status bad(const char* key, const emulator::Status& status) {
  return kit::fail(KEEL_INVALID_ARGUMENT, "sim: %s: %s", key, status.text().c_str());
}

// Names of types with commas between.
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

  Settings settings;
  emulator::DeviceOptions& device = settings.device;
  if (const auto profile = values.find("profile"); profile != values.end()) {
    const emulator::Status read =
        emulator::read_profile(profile->second, &device.profile.emplace());
    if (!read.ok()) return bad("profile", read);
    settings.devices = 1;
    if (device.profile->memory_bytes != 0) device.memory_bytes = device.profile->memory_bytes;
  }
  if (const auto faults = values.find("faults"); faults != values.end()) {
    const emulator::Status read = emulator::parse_faults(faults->second, &device.faults);
    if (!read.ok()) return bad("faults", read);
  }
  if (const auto types = values.find("ccl"); types != values.end()) {
    status = read_types(types->second, &settings.ccl);
    if (status != KEEL_OK) return status;
  }
  uint64_t memory_mib = 0;
  status = number(values, "devices", 0, 64, &settings.devices);
  if (status == KEEL_OK) status = number(values, "memory_mib", 1, 256 << 10, &memory_mib);
  if (status == KEEL_OK) status = number(values, "single_queue", 0, 1, &device.single_queue);
  if (status == KEEL_OK) status = number(values, "pageable_async", 0, 1, &device.pageable_async);
  if (status == KEEL_OK) status = number(values, "delay_us", 0, 1'000'000, &device.delay_us);
  if (status == KEEL_OK) status = number(values, "seed", 0, UINT64_MAX, &device.seed);
  if (status != KEEL_OK) return status;
  if (memory_mib != 0) device.memory_bytes = memory_mib << 20;
  *out_settings = std::move(settings);
  return KEEL_OK;
}

}  // namespace keel::sim
