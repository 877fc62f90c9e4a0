// SPDX-License-Identifier: Apache-2.0
// The Vulkan entry points that this backend calls, looked up at run time. The plugin does not link
// to the loader, so the plugin loads on machines without one. Device functions come from
// vkGetDeviceProcAddr, which skips the loader's trampoline.
#ifndef KEEL_BACKENDS_VULKAN_VULKAN_FUNCTIONS_H_
#define KEEL_BACKENDS_VULKAN_VULKAN_FUNCTIONS_H_

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

namespace keel::vulkan {

#define KEEL_VULKAN_INSTANCE_FUNCTIONS(X) \
  X(CreateDevice)                         \
  X(DestroyInstance)                      \
  X(EnumerateDeviceExtensionProperties)   \
  X(EnumeratePhysicalDevices)             \
  X(GetDeviceProcAddr)                    \
  X(GetPhysicalDeviceFeatures2)           \
  X(GetPhysicalDeviceMemoryProperties2)   \
  X(GetPhysicalDeviceProperties2)         \
  X(GetPhysicalDeviceQueueFamilyProperties)

#define KEEL_VULKAN_DEVICE_FUNCTIONS(X) \
  X(AllocateCommandBuffers)             \
  X(AllocateMemory)                     \
  X(BeginCommandBuffer)                 \
  X(BindBufferMemory)                   \
  X(CmdBindPipeline)                    \
  X(CmdCopyBuffer)                      \
  X(CmdDispatch)                        \
  X(CmdFillBuffer)                      \
  X(CmdPipelineBarrier)                 \
  X(CmdPushConstants)                   \
  X(CmdResetQueryPool)                  \
  X(CmdWriteTimestamp)                  \
  X(CreateBuffer)                       \
  X(CreateBufferView)                   \
  X(CreateDescriptorSetLayout)          \
  X(CreateCommandPool)                  \
  X(CreateComputePipelines)             \
  X(CreatePipelineCache)                \
  X(CreatePipelineLayout)               \
  X(CreateQueryPool)                    \
  X(CreateSemaphore)                    \
  X(CreateShaderModule)                 \
  X(DestroyBuffer)                      \
  X(DestroyBufferView)                  \
  X(DestroyCommandPool)                 \
  X(DestroyDescriptorSetLayout)         \
  X(DestroyDevice)                      \
  X(DestroyPipeline)                    \
  X(DestroyPipelineCache)               \
  X(DestroyPipelineLayout)              \
  X(DestroyQueryPool)                   \
  X(DestroySemaphore)                   \
  X(DestroyShaderModule)                \
  X(DeviceWaitIdle)                     \
  X(EndCommandBuffer)                   \
  X(FreeMemory)                         \
  X(GetBufferDeviceAddress)             \
  X(GetBufferMemoryRequirements)        \
  X(GetDeviceQueue)                     \
  X(GetPipelineCacheData)               \
  X(GetQueryPoolResults)                \
  X(GetSemaphoreCounterValue)           \
  X(MapMemory)                          \
  X(QueueSubmit)                        \
  X(WaitSemaphores)

// Extension functions; NULL if the device lacks the extension.
#define KEEL_VULKAN_OPTIONAL_DEVICE_FUNCTIONS(X) \
  X(CmdPushDescriptorSetKHR)                     \
  X(GetMemoryHostPointerPropertiesEXT)

#define KEEL_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;

struct InstanceFunctions {
  KEEL_VULKAN_INSTANCE_FUNCTIONS(KEEL_VULKAN_MEMBER)

  // Returns false if a function is missing; |*out_missing| names the function.
  bool load(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char** out_missing);
};

struct DeviceFunctions {
  KEEL_VULKAN_DEVICE_FUNCTIONS(KEEL_VULKAN_MEMBER)
  KEEL_VULKAN_OPTIONAL_DEVICE_FUNCTIONS(KEEL_VULKAN_MEMBER)

  bool load(PFN_vkGetDeviceProcAddr get, VkDevice device, const char** out_missing);
};

#undef KEEL_VULKAN_MEMBER

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_VULKAN_FUNCTIONS_H_
