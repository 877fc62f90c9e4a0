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

// One set of settings, and with it one driver. Thread-safe.
class Instance {
 public:
  // "library_folder": where libcuda.so.1 is; else the environment's KEEL_CUDA_LIBRARY_FOLDER,
  // else where the dynamic loader looks. "nccl_folder": where libnccl.so.2 is; else
  // KEEL_NCCL_LIBRARY_FOLDER, else where the driver was looked for. "cublaslt_folder": where
  // libcublasLt.so is; else KEEL_CUBLASLT_LIBRARY_FOLDER, else where the driver was looked for.
  // What NCCL is told: see NcclSettings.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  // Opened and started by the first who asks, which may take seconds.
  Driver& driver() const { return Driver::of(folder_); }
  const LibrarySettings& libraries() const { return libraries_; }
  const std::string& nccl_folder() const { return libraries_.nccl_folder; }
  // The lowest compute capability of all devices: what their NCCL can do together.
  int lowest_capability() const;
  // Fills in all but the header.
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  // Whether devices of compute capability |major|.x take the operators' kernels. On a driver older
  // than these it is tried once, on |ordinal|, in a context that is there meanwhile.
  bool has_kernels(uint32_t ordinal, int major) const;

  Instance(std::string folder, LibrarySettings libraries)
      : folder_(std::move(folder)), libraries_(std::move(libraries)) {}

  const std::string folder_;
  const LibrarySettings libraries_;
  mutable std::once_flag capability_asked_;
  mutable int lowest_capability_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int, bool> loads_kernels_;  // by the major capability, where it was tried
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_INSTANCE_H_
