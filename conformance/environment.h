// SPDX-License-Identifier: Apache-2.0
// Keel inside a worker process: the plugin under test, its device, and the others that
// a case may need beside it.
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

// One of both: the name of a plugin in Keel's folder, or a plugin file.
struct PluginChoice {
  std::string backend;
  std::string plugin;
  uint32_t ordinal = 0;  // of the device under test
  // On the libraries that stand over the emulated chip; the runner sees to it.
  bool emulated = false;
  // A folder with kernels.json, whose kernels take the place of the suite's; empty: none.
  std::string kernels;
};

struct NamedDevice {
  std::string name;  // "cpu:0"
  keel_device handle = {};
};

struct Environment {
  Target target;
  bool emulated = false;  // on the libraries that stand over the emulated chip
  uint64_t seed = 42;
  // For waits that should succeed: a quarter of a case's deadline, so that a wait that
  // does not, and the clean-up behind it, end before the worker is killed.
  int64_t wait_ns = 0;
  keel_device device = {};
  keel_device_info info = {};
  // Other devices: the rest of the backend's, and the CPU's, or, where the CPU's
  // backend itself is under test, those of a second instance of it.
  std::vector<NamedDevice> backend_devices;
  std::vector<NamedDevice> foreign_devices;
  // In workers where Keel does not load the plugin, and of the above there is |info| alone.
  std::unique_ptr<PluginDevice> tables;
};

// The runner's environment, for bodies that it judges: |seed| and times as the worker's, names
// without handles, and tables that do nothing.
Environment judges_environment(const Found& found, const PluginChoice& choice, uint64_t seed,
                               uint32_t timeout_seconds);
// The other way: what a worker says of its own.
Found found_by(const Environment& environment);

// Whether the device under test computes on the host's cores: a CPU, Vulkan's software device, an
// emulated chip. No case on such a device takes anything from another process but time.
bool computes_on_host(const Environment& environment);

// Opens the device of |choice| by the tables of the plugin file |path|, without Keel. False, and a
// sentence in |error|, where it cannot be had.
bool start_on_tables(const PluginChoice& choice, const std::string& path, uint32_t timeout_seconds,
                     Environment* out_environment, std::string* error);

// Starts Keel for |choice| with |timeout_seconds| for each case. False, and a sentence
// in |error|, when the plugin does not load, or there is no such backend; |usage| tells
// the latter.
bool start_environment(const PluginChoice& choice, uint32_t timeout_seconds,
                       Environment* out_environment, std::string* error, bool* usage);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_ENVIRONMENT_H_
