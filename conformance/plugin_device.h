// SPDX-License-Identifier: Apache-2.0
// The plugin under test through its own tables, in a process where Keel does not load the plugin,
// because a process queries a plugin once.
#ifndef KEEL_CONFORMANCE_PLUGIN_DEVICE_H_
#define KEEL_CONFORMANCE_PLUGIN_DEVICE_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::conformance {

// One open device.
class PluginDevice {
 public:
  // Loads the plugin file |path| and returns its tables, without an instance. Call it once for a
  // file, in a process where Keel does not load the file. On failure returns NULL and puts a
  // sentence in |error|.
  static const keel_plugin* query(const std::string& path, std::string* error);
  // Opens device |ordinal| of the plugin file |path|. On failure returns NULL and puts a sentence
  // in |error|.
  static std::unique_ptr<PluginDevice> open(const std::string& path, uint32_t ordinal,
                                            std::string* error);
  // Opens the same device again, in a separate instance with the setting "conformance" = "1", which
  // enables the functions of the test table. On failure returns NULL and puts a sentence in
  // |error|.
  std::unique_ptr<PluginDevice> open_for_tests(std::string* error) const;
  // Returns the device's replacement in the runner: a silent plugin whose info() is |info|.
  static std::unique_ptr<PluginDevice> stand_in(const keel_device_info& info);
  ~PluginDevice();
  PluginDevice(const PluginDevice&) = delete;
  PluginDevice& operator=(const PluginDevice&) = delete;

  const keel_plugin& plugin() const { return plugin_; }
  keel_plugin_instance* instance() const { return instance_; }
  keel_plugin_device* get() const { return device_; }
  uint32_t ordinal() const { return ordinal_; }
  const keel_device_info& info() const { return info_; }
  // Returns NULL if the plugin has no test table.
  const keel_test_table* test_table() const;
  // Returns the plugin's text for the last failure status on this thread.
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
