// SPDX-License-Identifier: Apache-2.0
// Kernels of the caller: cubins, fat binaries and PTX.
#ifndef KEEL_BACKENDS_CUDA_MODULE_H_
#define KEEL_BACKENDS_CUDA_MODULE_H_

#include <cuda.h>
#include <keel/abi.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/stream.h"

namespace keel::cuda {

// A function of a module. Thread-safe.
class Kernel {
 public:
  // More dynamic shared memory than this has to be asked for before a launch.
  static constexpr uint32_t kUsualSharedBytes = 48 << 10;

  // |sizes|: of the arguments, where the driver tells them.
  Kernel(std::string name, CUfunction function, bool knows_sizes, std::vector<size_t> sizes)
      : name_(std::move(name)),
        function_(function),
        knows_sizes_(knows_sizes),
        sizes_(std::move(sizes)) {}

  keel_status launch(Stream& stream, const keel_launch& launch);

 private:
  keel_status check_arguments(const keel_launch& launch) const;
  keel_status allow_shared(Device& device, uint32_t bytes);

  const std::string name_;
  const CUfunction function_;
  const bool knows_sizes_;
  const std::vector<size_t> sizes_;
  std::mutex mutex_;
  uint32_t allowed_shared_ = kUsualSharedBytes;
};

// Thread-safe.
class Module {
 public:
  // KEEL_INVALID_ARGUMENT for what is no image; KEEL_UNSUPPORTED for one that has nothing for the
  // device.
  static keel_status load(Device& device, keel_binary_format format, const void* data,
                          uint64_t size, std::unique_ptr<Module>* out_module);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // |*out_kernel| lives with the module.
  keel_status find(const char* name, Kernel** out_kernel);

 private:
  explicit Module(Device& device) : device_(device) {}

  Device& device_;
  CUmodule native_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_MODULE_H_
