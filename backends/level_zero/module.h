// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_MODULE_H_
#define KEEL_BACKENDS_LEVEL_ZERO_MODULE_H_

#include <keel/abi.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/level_zero/device.h"
#include "backends/level_zero/spirv.h"
#include "backends/level_zero/stream.h"

namespace keel::gpu {

// A kernel of the caller. Thread-safe.
class UserKernel {
 public:
  UserKernel(const SpirvKernel& parsed, ze::Kernel native, const ze::ComputeProperties& limits)
      : parsed_(parsed), native_(native), limits_(limits) {}

  ze::Kernel native() const { return native_; }
  // Enqueues one launch; copies the arguments. A parameter in memory of the group takes no
  // argument, but dynamic_shared_bytes.
  keel_status launch(Stream& stream, const keel_launch& launch);

 private:
  keel_status check(const keel_launch& launch) const;
  // Returns the first failure, with its function in |*out_name|.
  ze::Result set_arguments(const ze::Functions& ze, const keel_launch& launch,
                           const char** out_name);

  const SpirvKernel& parsed_;
  const ze::Kernel native_;
  const ze::ComputeProperties& limits_;
  // The native kernel contains group size and arguments of its next launch.
  std::mutex mutex_;
};

// A module of the caller: SPIR-V with OpenCL's kernels. Thread-safe.
class Module {
 public:
  static keel_status load(Device& device, keel_binary_format format, const void* data,
                          uint64_t size, std::unique_ptr<Module>* out_module);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // The kernel lives as long as the module.
  keel_status find(const char* name, UserKernel** out_kernel);

 private:
  explicit Module(Device& device) : device_(device) {}

  Device& device_;
  ze::ComputeProperties limits_;
  std::vector<SpirvKernel> parsed_;
  ze::Module native_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<UserKernel>, std::less<>> kernels_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_MODULE_H_
