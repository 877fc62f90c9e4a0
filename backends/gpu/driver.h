// SPDX-License-Identifier: Apache-2.0
// The driver of one folder, opened at run time. The plugin does not link to the driver, so the
// plugin loads on machines without one.
#ifndef KEEL_BACKENDS_GPU_DRIVER_H_
#define KEEL_BACKENDS_GPU_DRIVER_H_

#include <gpu_target.h>
#include <keel/abi.h>
#include <monitor_target.h>

#include <keel/plugin_kit.hpp>
#include <mutex>
#include <set>
#include <string>

#include "backends/gpu/host_registrations.h"

namespace keel::gpu {

// Initialised once per folder and file, for all instances, and never shut down: a driver leaves
// threads and exit handlers behind. Immutable except for registrations, the monitor and the set of
// logged warnings; thread-safe.
class Driver {
 public:
  // |folder| contains the driver |file|, as a rule kDriverFile; if empty, the dynamic loader
  // searches.
  static Driver& of(const std::string& folder, const std::string& file);

  int device_count() const { return device_count_; }
  // In the numbering of the vendor.
  int version() const { return version_; }
  // Why there is no device.
  const std::string& reason() const { return reason_; }
  const Functions& functions() const { return functions_; }
  // "CUDA 13.0, /usr/lib/x86_64-linux-gnu/libcuda.so.1"
  const std::string& description() const { return description_; }
  HostRegistrations& registrations() { return registrations_; }
  // The management library of the same folder.
  Monitor& monitor() { return monitor_; }

  // Logs |text| once per process.
  void warn_once(const std::string& text);

  // "cuInit: kErrorNoDevice: no CUDA-capable device is detected"
  std::string text_of(const char* call, Result result) const;

 private:
  Driver(const std::string& folder, const std::string& file);
  // Return false and set the reason if a step fails. Each target has an open() of its own.
  bool open(const std::string& folder, const std::string& file);
  bool start();

  kit::VendorLibrary library_;
  Functions functions_;
  HostRegistrations registrations_;
  Monitor monitor_;
  std::mutex mutex_;
  std::set<std::string> warnings_;
  int version_ = 0;
  int device_count_ = 0;
  std::string reason_;
  std::string description_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_DRIVER_H_
