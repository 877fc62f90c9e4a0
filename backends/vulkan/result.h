// SPDX-License-Identifier: Apache-2.0
// VkResult as a keel_status.
#ifndef KEEL_BACKENDS_VULKAN_RESULT_H_
#define KEEL_BACKENDS_VULKAN_RESULT_H_

#include <keel/plugin_kit.hpp>

#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

// Returns KEEL_OK, or reports the name of the failed |call| to core and returns its status.
inline keel_status to_status(VkResult result, const char* call) {
  switch (result) {
    case VK_SUCCESS:
      return KEEL_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return kit::fail(KEEL_OUT_OF_MEMORY, "%s: out of memory", call);
    case VK_ERROR_DEVICE_LOST:
      return kit::fail(KEEL_DEVICE_LOST, "%s: the device is lost", call);
    default:
      return kit::fail(KEEL_INTERNAL, "%s failed with VkResult %d", call, result);
  }
}

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_RESULT_H_
