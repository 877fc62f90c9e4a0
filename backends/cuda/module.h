// SPDX-License-Identifier: Apache-2.0
// User kernels: cubins, fat binaries and PTX.
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
  // Launches with more dynamic shared memory need an attribute set beforehand.
  static constexpr uint32_t kUsualSharedBytes = 48 << 10;

  // |sizes|: sizes of the arguments, valid if |knows_sizes| (the driver reports them).
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
  // Returns KEEL_INVALID_ARGUMENT if the data is no image, KEEL_UNSUPPORTED if the image has no
  // code for the device.
  static keel_status load(Device& device, keel_binary_format format, const void* data,
                          uint64_t size, std::unique_ptr<Module>* out_module);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // The module owns |*out_kernel|.
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
