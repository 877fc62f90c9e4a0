// SPDX-License-Identifier: Apache-2.0
// The Level Zero loader of one folder, opened at run time. The plugin does not link to the loader,
// so the plugin loads on machines without it.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_LOADER_H_
#define KEEL_BACKENDS_LEVEL_ZERO_LOADER_H_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/host_registrations.h"
#include "vendor/level_zero.h"

namespace keel::gpu {

// A GPU, its driver, and the one context of the driver that all its devices share, so that a
// pointer means the same to each of them.
struct Gpu {
  ze::Driver driver;
  ze::Context context;
  ze::Device device;
};

// The functions of Intel's driver that import host memory of the caller, and what is imported.
struct HostImports {
  ze::ImportExternalPointer* add = nullptr;
  ze::ReleaseImportedPointer* remove = nullptr;
  HostRegistrations registrations;
};

// Opened once per folder, for all instances, and never closed. Immutable; thread-safe.
class Loader {
 public:
  // |folder| contains libze_loader.so.1; if empty, the dynamic loader searches.
  static const Loader& of(const std::string& folder);

  const std::vector<Gpu>& gpus() const { return gpus_; }
  // Why there is no device.
  const std::string& reason() const { return reason_; }
  const ze::Functions& functions() const { return functions_; }
  // "Level Zero 1.4, /usr/lib/x86_64-linux-gnu/libze_loader.so.1"
  const std::string& description() const { return description_; }
  // Whether each device reaches the memory of every other one, in one context.
  bool has_peer_copies() const { return has_peer_copies_; }
  // Whether a driver shares device memory with other processes.
  bool can_share_memory(ze::Driver driver) const;
  // The driver's import of host memory; NULL for a driver without.
  HostImports* host_imports(ze::Driver driver) const;

 private:
  explicit Loader(const std::string& folder);
  // Return false and set the reason if a step fails.
  bool open(const std::string& folder);
  bool find_gpus();
  bool find_gpus_of(ze::Driver driver);
  bool refuse(const char* call, ze::Result result);
  void find_peers();
  void find_host_imports(ze::Driver driver);

  kit::VendorLibrary library_;
  ze::Functions functions_;
  std::vector<Gpu> gpus_;
  std::string reason_;
  std::string description_;
  bool has_peer_copies_ = false;
  std::map<ze::Driver, std::unique_ptr<HostImports>> host_imports_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_LOADER_H_
