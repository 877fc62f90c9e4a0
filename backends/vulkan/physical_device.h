// SPDX-License-Identifier: Apache-2.0
// A device as the driver describes it before the device is opened: its capabilities, and whether
// this backend can use it.
#ifndef KEEL_BACKENDS_VULKAN_PHYSICAL_DEVICE_H_
#define KEEL_BACKENDS_VULKAN_PHYSICAL_DEVICE_H_

#include <keel/abi.h>

#include <cstdint>
#include <optional>
#include <string>

#include "backends/vulkan/float_controls.h"
#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

struct PhysicalDevice {
  // Reads all properties of |handle|. Returns nullopt if the device lacks a required feature;
  // |*out_why| then completes the sentence "... skipped: ".
  static std::optional<PhysicalDevice> examine(const InstanceFunctions& vk, VkPhysicalDevice handle,
                                               std::string* out_why);

  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  VkPhysicalDeviceMemoryProperties memory = {};
  uint8_t pipeline_cache_uuid[VK_UUID_SIZE] = {};

  uint32_t queue_family = 0;
  uint32_t queue_count = 0;

  uint32_t subgroup_size = 0;        // invocations
  uint32_t max_workgroup_count = 0;  // along x
  uint64_t import_alignment = 0;     // bytes; 0: host memory cannot be imported
  double timestamp_period = 0;       // nanoseconds per tick
  uint64_t timestamp_mask = 0;       // mask of the valid bits; 0: no timestamps
  bool storage_16bit = false;        // shaders may load and store 16-bit integers
  FloatControls float_controls;
  // Features and size limits of user kernels.
  struct KernelLimits {
    bool int64 = false;
    bool int16 = false;
    bool int8 = false;
    bool float64 = false;
    bool float16 = false;
    bool storage_8bit = false;
    VkSubgroupFeatureFlags subgroup_operations = 0;
    uint32_t groups[3] = {};
    uint32_t workgroup[3] = {};
    uint32_t invocations = 0;          // per workgroup
    uint32_t push_constant_bytes = 0;  // arguments
  } kernels;
  bool memory_budget = false;  // VK_EXT_memory_budget
  // Maximum number of texels of a block that kernels read as texel buffers, bound by
  // VK_KHR_push_descriptor; 0: kernels do not use texels. Nonzero only on CPU drivers, where texels
  // are the only fast way to load.
  uint64_t max_texels = 0;

  uint32_t device_memory_type = 0;
  uint32_t pinned_memory_type = 0;
  // Device memory is also ordinary cached host memory: lavapipe, integrated GPUs.
  bool host_reaches_device_memory = false;

  keel_device_info info = {};

  // Whether kernels run on the host's cores, with a subgroup as the lanes of one SIMD register.
  bool is_cpu() const { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_PHYSICAL_DEVICE_H_
