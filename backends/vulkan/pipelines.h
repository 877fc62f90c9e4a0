// SPDX-License-Identifier: Apache-2.0
// Compute pipelines of a device: created on first use and kept until the device closes. A file
// keeps the driver's cache of compiled code between processes.
#ifndef KEEL_BACKENDS_VULKAN_PIPELINES_H_
#define KEEL_BACKENDS_VULKAN_PIPELINES_H_

#include <keel/abi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "backends/vulkan/physical_device.h"
#include "backends/vulkan/shaders.h"
#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

// Every pipeline takes its arguments as push constants, at most the 128 bytes that Vulkan
// guarantees. Buffers are passed as addresses among the arguments.
inline constexpr uint32_t kPushConstantBytes = 128;

// A shader with its specialisation. |variant| is the value of constant_id 2; each shader defines
// the meaning.
struct PipelineKey {
  Shader shader;
  uint32_t variant = 0;
};

// Thread-safe.
class Pipelines {
 public:
  static constexpr uint32_t kVariants = 66;  // of a shader

  Pipelines(const DeviceFunctions& vk, VkDevice device, const PhysicalDevice& physical)
      : vk_(vk), device_(device), physical_(physical) {}
  ~Pipelines();  // writes the cache file if a pipeline was created
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  keel_status open();
  // Compiles on the first call for a key: milliseconds. Later calls are one load.
  keel_status get(PipelineKey key, VkPipeline* out_pipeline);
  VkPipelineLayout layout() const { return layout_; }
  // The driver's cache, shared with the pipelines of user kernels. Creating a user kernel's
  // pipeline alone does not cause a write of the file.
  VkPipelineCache cache() const { return cache_; }
  // Invocations of one workgroup of |shader| on this device.
  uint32_t local_size(Shader shader) const;

 private:
  keel_status create(PipelineKey key, VkPipeline* out_pipeline);
  std::string cache_path() const;
  void save_cache() const;

  const DeviceFunctions& vk_;
  const VkDevice device_;
  const PhysicalDevice& physical_;
  VkDescriptorSetLayout texels_ = VK_NULL_HANDLE;  // two texel buffers; on devices that use texels
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex mutex_;  // held while compiling
  bool changed_ = false;
  std::array<std::array<std::atomic<VkPipeline>, kVariants>, kShaderCount> pipelines_ = {};
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_PIPELINES_H_
