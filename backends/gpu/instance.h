// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_INSTANCE_H_
#define KEEL_BACKENDS_GPU_INSTANCE_H_

#include <keel/abi.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/gpu/device.h"
#include "backends/gpu/driver.h"

namespace keel::gpu {

// One set of settings and the driver for the settings. Thread-safe.
class Instance {
 public:
  // "library_folder": the folder of the driver; default the variable kFolderVariable, else the
  // dynamic loader's search path. "driver_file": the driver's file name in place of kDriverFile,
  // for chips whose vendor has a library with the driver's functions. kCclFolderKey: the folder of
  // the collectives library; default kCclFolderVariable, else the driver's folder setting.
  // kProductsFolderKey: the folder of the library of matrix products, likewise. See
  // NcclSettings for the configuration of communicators.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  // The first call opens and initialises the driver, which may take seconds.
  Driver& driver() const { return Driver::of(folder_, file_); }
  const LibrarySettings& libraries() const { return libraries_; }
  const std::string& ccl_folder() const { return libraries_.ccl_folder; }
  // The lowest compute capability of all devices, which limits the features of their
  // communicators.
  int lowest_capability() const;
  // Fills every member except the header.
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  // Whether devices of compute capability |capability| and |architecture| can load the operators'
  // kernels. If only loading tells, the first call tries to load them on |ordinal|, in a temporary
  // context.
  bool has_kernels(uint32_t ordinal, int capability, const std::string& architecture) const;

  Instance(std::string folder, std::string file, LibrarySettings libraries)
      : folder_(std::move(folder)), file_(std::move(file)), libraries_(std::move(libraries)) {}

  const std::string folder_;
  const std::string file_;
  const LibrarySettings libraries_;
  mutable std::once_flag capability_asked_;
  mutable int lowest_capability_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::string, bool> loads_kernels_;  // results of load attempts, by architecture
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_INSTANCE_H_
