// SPDX-License-Identifier: Apache-2.0
// The plugin under test by its own tables, in a process where Keel does not load it: a plugin is
// queried once in a process.
#ifndef KEEL_CONFORMANCE_PLUGIN_DEVICE_H_
#define KEEL_CONFORMANCE_PLUGIN_DEVICE_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::conformance {

// One device, open.
class PluginDevice {
 public:
  // Device |ordinal| of the plugin file |path|. NULL, and a sentence in |error|, where it cannot be
  // had.
  static std::unique_ptr<PluginDevice> open(const std::string& path, uint32_t ordinal,
                                            std::string* error);
  // The same device once more, in an instance of its own with the setting "conformance" = "1":
  // where the functions of a test table work. NULL, and a sentence in |error|, where it cannot be
  // had.
  std::unique_ptr<PluginDevice> open_for_tests(std::string* error) const;
  // What stands for it in the runner: a silent plugin that says |info|.
  static std::unique_ptr<PluginDevice> stand_in(const keel_device_info& info);
  ~PluginDevice();
  PluginDevice(const PluginDevice&) = delete;
  PluginDevice& operator=(const PluginDevice&) = delete;

  const keel_plugin& plugin() const { return plugin_; }
  keel_plugin_instance* instance() const { return instance_; }
  keel_plugin_device* get() const { return device_; }
  const keel_device_info& info() const { return info_; }
  // NULL where the plugin has none.
  const keel_test_table* test_table() const;
  // What the plugin said of the last status that was none of success, on this thread.
  static const std::string& last_text();

 private:
  explicit PluginDevice(const keel_plugin& plugin, uint32_t ordinal = 0)
      : plugin_(plugin), ordinal_(ordinal) {}
  static std::unique_ptr<PluginDevice> open(const keel_plugin& plugin, uint32_t ordinal,
                                            const keel_instance_settings& settings,
                                            std::string* error);

  const keel_plugin& plugin_;
  const uint32_t ordinal_;
  keel_plugin_instance* instance_ = nullptr;
  keel_plugin_device* device_ = nullptr;
  keel_device_info info_ = {};
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PLUGIN_DEVICE_H_
