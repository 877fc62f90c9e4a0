// SPDX-License-Identifier: Apache-2.0
// What this backend must know of a SPIR-V module of the caller before a driver sees it:
// its kernels, their workgroup sizes and their arguments.
#ifndef KEEL_BACKENDS_VULKAN_SPIRV_H_
#define KEEL_BACKENDS_VULKAN_SPIRV_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace keel::vulkan {

// One member of a kernel's push constant block: an argument.
struct SpirvArgument {
  uint32_t offset;
  uint32_t size;
};

// One axis of a workgroup: fixed in the module, or a specialisation constant.
struct SpirvExtent {
  uint32_t value = 1;
  bool specialised = false;
  uint32_t constant_id = 0;
};

struct SpirvKernel {
  std::string name;
  std::array<SpirvExtent, 3> workgroup;
  std::vector<SpirvArgument> arguments;  // by offset
};

struct SpirvModule {
  std::vector<SpirvKernel> kernels;
  std::vector<uint32_t> capabilities;
};

// Reads |size| bytes; KEEL_INVALID_ARGUMENT, with what is wrong, for bytes that are no
// SPIR-V, or that want what this backend does not give a kernel (descriptors, a workgroup
// size that is computed). Believes nothing: no word is read beyond the end.
keel_status read_spirv(const void* data, uint64_t size, SpirvModule* out_module);

// Has SPIRV-Tools look at the module, where this build has them. KEEL_INVALID_ARGUMENT
// with their message.
keel_status validate_spirv(const void* data, uint64_t size);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_SPIRV_H_
