// SPDX-License-Identifier: Apache-2.0
#include "conformance/target.h"

#include <nlohmann/json.hpp>

#include "base/json_value.h"
#include "conformance/levels.h"

namespace keel::conformance {

void to_json(nlohmann::json& json, const Target& target) {
  json = {{"backend", target.backend},
          {"vendor", target.vendor},
          {"version", target.version},
          {"path", target.path},
          {"keel_version", target.keel_version},
          {"device_count", target.device_count},
          {"no_device", target.no_device},
          {"device", target.device},
          {"device_name", target.device_name},
          {"architecture", target.architecture},
          {"driver", target.driver},
          {"memory_bytes", target.memory_bytes},
          {"capabilities", target.capabilities},
          {"capability_names", capability_names(target.capabilities)}};
}

Target target_of(const JsonValue& json) {
  Target target;
  target.backend = json.at("backend").text();
  target.vendor = json.at("vendor").text();
  target.version = json.at("version").text();
  target.path = json.at("path").text();
  target.keel_version = json.at("keel_version").text();
  target.device_count = json.at("device_count").count<uint32_t>();
  target.no_device = json.at("no_device").text();
  target.device = json.at("device").text();
  target.device_name = json.at("device_name").text();
  target.architecture = json.at("architecture").text();
  target.driver = json.at("driver").text();
  target.memory_bytes = json.at("memory_bytes").count<uint64_t>();
  target.capabilities = json.at("capabilities").count<uint64_t>();
  return target;
}

}  // namespace keel::conformance
