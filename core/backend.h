// SPDX-License-Identifier: Apache-2.0
// One plugin instance: function tables, settings and devices.
#ifndef KEEL_CORE_BACKEND_H_
#define KEEL_CORE_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "core/plugin_file.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;

// Converts the result of a plugin call to a Status: "|who|: |call|: the plugin's text".
Status plugin_status(keel_status code, const std::string& who, const char* call);

// Immutable after load(), so any thread may read a backend. A backend that failed to load stays in
// the runtime's list with the failure as status().
class Backend {
 public:
  Backend(std::string name, std::string path) : name_(std::move(name)), path_(std::move(path)) {}
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Creates the plugin instance and enumerates the devices. A failure is also stored as status().
  // |fork_memory|: keel_fork_memory, for plugins that read keel_fork_settings.
  Status load(const keel_plugin* plugin, const keel_instance_settings* settings,
              uint32_t fork_memory = 0);
  void set_failed(const Status& status) { status_ = status; }

  const std::string& name() const { return name_; }  // "vulkan", "cuda#2"
  const std::string& path() const { return path_; }
  const keel_plugin* plugin() const { return plugin_; }
  keel_plugin_instance* instance() const { return instance_; }
  const Status& status() const { return status_; }
  const std::string& reason() const { return reason_; }
  const std::vector<Ref<Device>>& devices() const { return devices_; }

 private:
  Status find_devices();

  const std::string name_;
  const std::string path_;
  const keel_plugin* plugin_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  Status status_;
  std::string reason_;  // why a loaded plugin reports no device
  std::vector<Ref<Device>> devices_;
};

}  // namespace keel

#endif  // KEEL_CORE_BACKEND_H_
