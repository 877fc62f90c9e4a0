// SPDX-License-Identifier: Apache-2.0
// XRE of one folder, opened at run time. The plugin does not link to XRE, so the plugin loads on
// machines without it.
#ifndef KEEL_BACKENDS_KUNLUN_RUNTIME_H_
#define KEEL_BACKENDS_KUNLUN_RUNTIME_H_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>
#include <vector>

#include "vendor/xre.h"

namespace keel::kunlun {

// Opened once per folder, for all instances, and never closed. Immutable; thread-safe.
class Runtime {
 public:
  // |folder| contains libxpurt.so; if empty, the dynamic loader searches, and then the folder in
  // which the vendor installs it.
  static const Runtime& of(const std::string& folder);

  // XRE's numbers of the visible devices, without those of the simulator.
  const std::vector<int>& devices() const { return devices_; }
  // Why there is no device.
  const std::string& reason() const { return reason_; }
  const xre::Functions& functions() const { return functions_; }
  // "XRE 5.0, /usr/local/xpu/so/libxpurt.so"
  const std::string& description() const { return description_; }
  // "XRE 5.0".
  const std::string& version() const { return version_; }

 private:
  explicit Runtime(const std::string& folder);
  // Return false and set the reason if a step fails.
  bool open(const std::string& folder);
  bool find_devices();

  kit::VendorLibrary library_;
  xre::Functions functions_;
  std::vector<int> devices_;
  std::string reason_;
  std::string version_;
  std::string description_;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_RUNTIME_H_
