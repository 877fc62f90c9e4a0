// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_INSTANCE_H_
#define KEEL_BACKENDS_CUDA_INSTANCE_H_

#include <keel/abi.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/cuda/device.h"
#include "backends/cuda/driver.h"

namespace keel::cuda {

// One set of settings and the driver for the settings. Thread-safe.
class Instance {
 public:
  // "library_folder": the folder of libcuda.so.1; default KEEL_CUDA_LIBRARY_FOLDER, else the
  // dynamic loader's search path. "driver_file": the driver's file name in place of libcuda.so.1,
  // for chips whose vendor has a library with the driver's functions. "nccl_folder": the folder of
  // libnccl.so.2; default KEEL_NCCL_LIBRARY_FOLDER, else the driver's folder setting.
  // "cublaslt_folder": the folder of libcublasLt.so; default KEEL_CUBLASLT_LIBRARY_FOLDER, else the
  // driver's folder setting. See NcclSettings for the configuration of NCCL.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  // The first call opens and initialises the driver, which may take seconds.
  Driver& driver() const { return Driver::of(folder_, file_); }
  const LibrarySettings& libraries() const { return libraries_; }
  const std::string& nccl_folder() const { return libraries_.nccl_folder; }
  // The lowest compute capability of all devices, which limits the features of their NCCL
  // communicators.
  int lowest_capability() const;
  // Fills every member except the header.
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  // Whether devices of compute capability |major|.x can load the operators' kernels. If the driver
  // is older than the kernels, the first call tries to load them on |ordinal|, in a temporary
  // context.
  bool has_kernels(uint32_t ordinal, int major) const;

  Instance(std::string folder, std::string file, LibrarySettings libraries)
      : folder_(std::move(folder)), file_(std::move(file)), libraries_(std::move(libraries)) {}

  const std::string folder_;
  const std::string file_;
  const LibrarySettings libraries_;
  mutable std::once_flag capability_asked_;
  mutable int lowest_capability_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int, bool> loads_kernels_;  // results of load attempts, by major capability
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_INSTANCE_H_
