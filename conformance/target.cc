#include "conformance/target.h"

#include <nlohmann/json.hpp>

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
  json.at("device_count").get_to(target.device_count);
  json.at("no_device").get_to(target.no_device);
  json.at("device").get_to(target.device);
  json.at("device_name").get_to(target.device_name);
  json.at("architecture").get_to(target.architecture);
  json.at("driver").get_to(target.driver);
  json.at("memory_bytes").get_to(target.memory_bytes);
  json.at("claims").get_to(target.claims);
}

}  // namespace keel::conformance
