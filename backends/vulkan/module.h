// SPDX-License-Identifier: Apache-2.0
// Kernels of the caller: compute shaders in SPIR-V that take their arguments as push
// constants, device memory by its address.
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

// One compute entry point, with a pipeline for each workgroup size it was launched with.
// Thread-safe.
class Kernel {
 public:
  Kernel(Module& module, SpirvKernel description)
      : module_(module), description_(std::move(description)) {}
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const { return description_.name; }
  // The layout; and the checks that the device's limits allow. Before anything else.
  keel_status open();
  // Enqueues it. The first launch with a block compiles: milliseconds.
  // KEEL_INVALID_ARGUMENT, naming it, for arguments or a block that the module does not
  // have, or that the device cannot run.
  keel_status launch(Stream& stream, const keel_launch& launch);

 private:
  using Block = std::array<uint32_t, 3>;
  struct Variant {
    Block block;
    VkPipeline pipeline;
  };
  // What Vulkan implementations give: 128 bytes at least, 256 at most in practice.
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

// A loaded module. Its launches are done when it is destroyed. Thread-safe.
class Module {
 public:
  static keel_status load(Device& device, keel_binary_format format, const void* data,
                          uint64_t size, std::unique_ptr<Module>* out_module);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  Device& device() const { return device_; }
  VkShaderModule handle() const { return handle_; }
  // NULL when it has no such kernel; lives with the module.
  Kernel* find(const char* name) const;

 private:
  explicit Module(Device& device) : device_(device) {}

  Device& device_;
  VkShaderModule handle_ = VK_NULL_HANDLE;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_MODULE_H_
