// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_vulkan.h"

namespace keel::bench {

std::unique_ptr<RawVulkan> RawVulkan::open(const uint8_t*, std::string* out_reason) {
  *out_reason = "built without Vulkan's headers or glslc";
  return nullptr;
}

}  // namespace keel::bench
