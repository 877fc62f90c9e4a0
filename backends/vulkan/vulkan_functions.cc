// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

bool InstanceFunctions::load(PFN_vkGetInstanceProcAddr get, VkInstance instance,
                             const char** out_missing) {
#define KEEL_VULKAN_LOAD(name)                                      \
  name = reinterpret_cast<PFN_vk##name>(get(instance, "vk" #name)); \
  if (name == nullptr) {                                            \
    *out_missing = "vk" #name;                                      \
    return false;                                                   \
  }
  KEEL_VULKAN_INSTANCE_FUNCTIONS(KEEL_VULKAN_LOAD)
#undef KEEL_VULKAN_LOAD
  return true;
}

bool DeviceFunctions::load(PFN_vkGetDeviceProcAddr get, VkDevice device, const char** out_missing) {
#define KEEL_VULKAN_LOAD(name)                                    \
  name = reinterpret_cast<PFN_vk##name>(get(device, "vk" #name)); \
  if (name == nullptr) {                                          \
    *out_missing = "vk" #name;                                    \
    return false;                                                 \
  }
  KEEL_VULKAN_DEVICE_FUNCTIONS(KEEL_VULKAN_LOAD)
#undef KEEL_VULKAN_LOAD
#define KEEL_VULKAN_LOAD(name) name = reinterpret_cast<PFN_vk##name>(get(device, "vk" #name));
  KEEL_VULKAN_OPTIONAL_DEVICE_FUNCTIONS(KEEL_VULKAN_LOAD)
#undef KEEL_VULKAN_LOAD
  return true;
}

}  // namespace keel::vulkan
