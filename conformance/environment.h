// SPDX-License-Identifier: Apache-2.0
// Keel inside a worker process: the plugin under test, the device, and further devices for some
// cases.
#ifndef KEEL_CONFORMANCE_ENVIRONMENT_H_
#define KEEL_CONFORMANCE_ENVIRONMENT_H_

#include <keel/keel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conformance/plugin_device.h"
#include "conformance/target.h"

namespace keel::conformance {

// The plugin to test: exactly one of |backend|, a plugin name in Keel's folder, and |plugin|, a
// file.
struct PluginChoice {
  std::string backend;
  std::string plugin;
  uint32_t ordinal = 0;  // of the device under test
  // Use the libraries of the emulated chip; the runner sets up the environment for them.
  bool emulated = false;
  // A folder with kernels.json whose kernels replace the suite's; empty: use the suite's.
  std::string kernels;
};

struct NamedDevice {
  std::string name;  // "cpu:0"
  keel_device handle = {};
};

struct Environment {
  Target target;
  bool emulated = false;  // the plugin uses the libraries of the emulated chip
  uint64_t seed = 42;
  // Timeout of waits that should succeed: a quarter of a case's deadline, so a failed wait and the
  // cleanup end before the runner kills the worker.
  int64_t wait_ns = 0;
  keel_device device = {};
  keel_device_info info = {};
  // Other devices: the backend's remaining devices, and the CPU's devices. If the CPU backend
  // itself is under test, the latter belong to a second instance of it.
  std::vector<NamedDevice> backend_devices;
  std::vector<NamedDevice> foreign_devices;
  // Set in workers where Keel does not load the plugin; of the members above only |info| is then
  // valid.
  std::unique_ptr<PluginDevice> tables;
};

// Returns the environment in which the runner judges case bodies: |seed| and times as in the
// worker, device names without handles, and tables whose functions do nothing.
Environment judges_environment(const Found& found, const PluginChoice& choice, uint64_t seed,
                               uint32_t timeout_seconds);
// The inverse: builds a worker's description of its own environment.
Found found_by(const Environment& environment);

// Returns whether the device under test computes on the host's cores: a CPU, Vulkan's software
// device or an emulated chip. A case on such a device takes only CPU time from other processes.
bool computes_on_host(const Environment& environment);

// Opens the device of |choice| through the tables of the plugin file |path|, without Keel. On
// failure returns false and puts a sentence in |error|.
bool start_on_tables(const PluginChoice& choice, const std::string& path, uint32_t timeout_seconds,
                     Environment* out_environment, std::string* error);

// Starts Keel for |choice| with |timeout_seconds| per case. Returns false, with a sentence in
// |error|, if the plugin does not load or the backend does not exist; |usage| is true in the latter
// case.
bool start_environment(const PluginChoice& choice, uint32_t timeout_seconds,
                       Environment* out_environment, std::string* error, bool* usage);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_ENVIRONMENT_H_
