// SPDX-License-Identifier: Apache-2.0
// User kernels: SPIR-V compute shaders that receive their arguments as push constants and device
// memory as addresses.
#ifndef KEEL_BACKENDS_VULKAN_MODULE_H_
#define KEEL_BACKENDS_VULKAN_MODULE_H_

#include <keel/abi.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/vulkan/device.h"
#include "backends/vulkan/spirv.h"
#include "backends/vulkan/stream.h"

namespace keel::vulkan {

class Module;

// One compute entry point, with a pipeline for each workgroup size used so far. Thread-safe.
class Kernel {
 public:
  Kernel(Module& module, SpirvKernel description)
      : module_(module), description_(std::move(description)) {}
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const { return description_.name; }
  // Creates the pipeline layout and checks the device's limits. Call first.
  keel_status open();
  // Enqueues the kernel. The first launch with a block size compiles: milliseconds. Returns
  // KEEL_INVALID_ARGUMENT, with a text naming the cause, for arguments or a block size that the
  // module does not define or the device cannot run.
  keel_status launch(Stream& stream, const keel_launch& launch);

 private:
  using Block = std::array<uint32_t, 3>;
  struct Variant {
    Block block;
    VkPipeline pipeline;
  };
  // Vulkan implementations provide at least 128 bytes, and at most 256 in practice.
  static constexpr uint32_t kMaxArgumentBytes = 256;

  keel_status check_block(const keel_launch& launch) const;
  keel_status pack(const keel_launch& launch, std::byte* out_arguments) const;
  keel_status get_pipeline(const Block& block, VkPipeline* out_pipeline);
  keel_status create_pipeline(const Block& block, VkPipeline* out_pipeline) const;

  Module& module_;
  const SpirvKernel description_;
  uint32_t argument_bytes_ = 0;  // a multiple of 4
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::mutex mutex_;  // held while compiling
  std::vector<Variant> variants_;
};

// A loaded module. Destroy after all launches have finished. Thread-safe.
class Module {
 public:
  static keel_status load(Device& device, keel_binary_format format, const void* data,
                          uint64_t size, std::unique_ptr<Module>* out_module);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  Device& device() const { return device_; }
  VkShaderModule handle() const { return handle_; }
  // Returns NULL if there is no such kernel. The module owns the kernel.
  Kernel* find(const char* name) const;

 private:
  explicit Module(Device& device) : device_(device) {}

  Device& device_;
  VkShaderModule handle_ = VK_NULL_HANDLE;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_MODULE_H_
