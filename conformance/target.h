// SPDX-License-Identifier: Apache-2.0
// The target under test, as the worker sends it to the runner and as reports contain it.
#ifndef KEEL_CONFORMANCE_TARGET_H_
#define KEEL_CONFORMANCE_TARGET_H_

#include <keel/abi.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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
  std::string no_device;  // why there is no device
  // The device under test; the members below are empty without one.
  std::string device;  // "cpu:0"
  std::string device_name;
  std::string architecture;
  std::string driver;
  uint64_t memory_bytes = 0;
  uint64_t capabilities = 0;

  bool has_device() const { return !device.empty(); }
};

// A worker's findings: the target and all further devices.
struct Found {
  Target target;
  keel_device_info info = {};                // of the device under test
  std::vector<std::string> backend_devices;  // names of the other devices
  std::vector<std::string> foreign_devices;
  bool on_host = false;  // the device under test computes on the host's cores
};

void to_json(nlohmann::json& json, const Target& target);
// Throws JsonError, which names the missing member or the member of a wrong type.
Target target_of(const JsonValue& json);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TARGET_H_
