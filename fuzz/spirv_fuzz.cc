// SPDX-License-Identifier: Apache-2.0
// Fuzzes SPIR-V modules of the caller, as the Vulkan backend reads them before the driver.
#include "backends/vulkan/spirv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::vulkan::SpirvModule module;
  if (keel::vulkan::read_spirv(data, size, &module) != KEEL_OK) return 0;
  if (module.kernels.empty()) __builtin_trap();
  for (const keel::vulkan::SpirvKernel& kernel : module.kernels) {
    for (const keel::vulkan::SpirvExtent& extent : kernel.workgroup) {
      if (!extent.specialised && extent.value == 0) __builtin_trap();
    }
    // A launch writes the arguments one after the other.
    uint64_t end = 0;
    for (const keel::vulkan::SpirvArgument& argument : kernel.arguments) {
      if (argument.size == 0 || argument.offset < end) __builtin_trap();
      end = uint64_t{argument.offset} + argument.size;
      if (end > UINT32_MAX) __builtin_trap();
    }
  }
  return 0;
}
