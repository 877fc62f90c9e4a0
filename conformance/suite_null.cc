// SPDX-License-Identifier: Apache-2.0
// Level null: requirements for a plugin even without its chip.
#include <fmt/format.h>

#include "conformance/harness.h"

namespace keel::conformance {

namespace {

void loads(const Context& context) {
  const Target& target = context.environment.target;
  check(!target.backend.empty(), "the plugin has no name");
  check(!target.vendor.empty(), "the plugin names no vendor");
  check(!target.version.empty(), "the plugin has no version");
}

void devices_or_reason(const Context& context) {
  const Target& target = context.environment.target;
  if (target.device_count == 0) {
    // "no GPU" has six letters; a shorter text explains nothing.
    check(target.no_device.size() >= 6 && !target.no_device.ends_with("does not say why"),
          "no device, and no sentence that says why");
    return;
  }
  check(target.has_device(), "there are devices, but none was opened");
}

keel_backend_info backend_at(uint32_t index) {
  keel_backend_info info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
  must(keel_backend_get(index, &info), "keel_backend_get");
  return info;
}

void second_instance(const Context& context) {
  const Target& target = context.environment.target;
  uint32_t index = 0;
  must(keel_plugin_load(target.path.c_str(), nullptr, nullptr, &index),
       "a second instance of the plugin");
  const uint32_t count = observe(backend_at(index).device_count);
  check(
      count == target.device_count,
      fmt::format("the second instance has {} devices, the first {}", count, target.device_count));
}

// A key that begins like one of abi.h's, or is the beginning of one, is as unknown as any.
void unknown_setting(const Context& context, const char* key) {
  const char* const keys[] = {key};
  const char* const values[] = {"1"};
  keel_instance_settings settings =
      KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 1;
  settings.keys = keys;
  settings.values = values;
  uint32_t index = 0;
  const keel_status status =
      keel_plugin_load(context.environment.target.path.c_str(), &settings, nullptr, &index);
  must_be(KEEL_INVALID_ARGUMENT, status,
          fmt::format("an instance with the unknown setting '{}'", key));
  const std::string refusal = observe_text(keel_last_error());
  check(refusal.find(key) != std::string::npos,
        fmt::format("the refusal does not name the setting: {}", refusal));
}

}  // namespace

void add_null_cases(const Environment&, std::vector<Case>* cases) {
  cases->push_back({.id = "null/load", .body = loads});
  cases->push_back({.id = "null/devices_or_reason", .body = devices_or_reason});
  cases->push_back({.id = "null/second_instance", .body = second_instance});
  cases->push_back({.id = "null/unknown_setting", .body = [](const Context& context) {
                      for (const char* key :
                           {"no_plugin_has_this_setting", "conformance_of_none", "conformanc"}) {
                        unknown_setting(context, key);
                      }
                    }});
}

}  // namespace keel::conformance
