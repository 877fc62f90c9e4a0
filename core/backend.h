// SPDX-License-Identifier: Apache-2.0
// One instance of a plugin: its tables, its settings and its devices.
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

// A plugin call's result as a Status: "|who|: |call|: what the plugin said".
Status plugin_status(keel_status code, const std::string& who, const char* call);

// Immutable once load() is done, so that any thread may read it. A backend that
// failed to load stays in the list with the reason.
class Backend {
 public:
  Backend(std::string name, std::string path) : name_(std::move(name)), path_(std::move(path)) {}
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Creates the instance and looks for devices. A failure is kept as reason() too.
  Status load(const keel_plugin* plugin, const keel_instance_settings* settings);
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
  std::string reason_;  // why there is no device
  std::vector<Ref<Device>> devices_;
};

}  // namespace keel

#endif  // KEEL_CORE_BACKEND_H_
