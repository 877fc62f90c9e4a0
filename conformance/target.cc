// SPDX-License-Identifier: Apache-2.0
#include "conformance/target.h"

#include <nlohmann/json.hpp>

#include "conformance/json_count.h"
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
          {"claims", target.claims},
          {"claim_names", claim_names(target.claims)}};
}

void from_json(const nlohmann::json& json, Target& target) {
  json.at("backend").get_to(target.backend);
  json.at("vendor").get_to(target.vendor);
  json.at("version").get_to(target.version);
  json.at("path").get_to(target.path);
  json.at("keel_version").get_to(target.keel_version);
  target.device_count = get_count<uint32_t>(json.at("device_count"));
  json.at("no_device").get_to(target.no_device);
  json.at("device").get_to(target.device);
  json.at("device_name").get_to(target.device_name);
  json.at("architecture").get_to(target.architecture);
  json.at("driver").get_to(target.driver);
  target.memory_bytes = get_count<uint64_t>(json.at("memory_bytes"));
  target.claims = get_count<uint64_t>(json.at("claims"));
}

}  // namespace keel::conformance
