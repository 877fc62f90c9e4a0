// SPDX-License-Identifier: Apache-2.0
// User kernels, in the binary format of the vendor.
#ifndef KEEL_BACKENDS_GPU_MODULE_H_
#define KEEL_BACKENDS_GPU_MODULE_H_

#include <gpu_target.h>
#include <keel/abi.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gpu/stream.h"

namespace keel::gpu {

// A function of a module. Thread-safe.
class Kernel {
 public:
  // |sizes|: sizes of the arguments, valid if |knows_sizes| (the driver reports them).
  Kernel(std::string name, NativeFunction function, bool knows_sizes, std::vector<size_t> sizes)
      : name_(std::move(name)),
        function_(function),
        knows_sizes_(knows_sizes),
        sizes_(std::move(sizes)) {}

  keel_status launch(Stream& stream, const keel_launch& launch);

 private:
  keel_status check_arguments(const keel_launch& launch) const;
  keel_status allow_shared(Device& device, uint32_t bytes);

  const std::string name_;
  const NativeFunction function_;
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
  NativeModule native_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_MODULE_H_
