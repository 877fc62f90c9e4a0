// SPDX-License-Identifier: Apache-2.0
// What is under test, as it crosses from the worker to the runner and into reports.
#ifndef KEEL_CONFORMANCE_TARGET_H_
#define KEEL_CONFORMANCE_TARGET_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace keel {
class JsonValue;
}

namespace keel::conformance {

struct Target {
  std::string backend;  // "cpu"
  std::string vendor;
  std::string version;
  std::string path;  // of the plugin file
  std::string keel_version;
  uint32_t device_count = 0;
  std::string no_device;  // why there is none
  // Of the device under test; empty without one.
  std::string device;  // "cpu:0"
  std::string device_name;
  std::string architecture;
  std::string driver;
  uint64_t memory_bytes = 0;
  uint64_t claims = 0;

  bool has_device() const { return !device.empty(); }
};

void to_json(nlohmann::json& json, const Target& target);
// Throws JsonError, which names the member that is missing or of another kind.
Target target_of(const JsonValue& json);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TARGET_H_
