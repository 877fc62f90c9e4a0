// SPDX-License-Identifier: Apache-2.0
// Parses a user's SPIR-V module before a driver sees it: its kernels, their workgroup sizes and
// their arguments.
#ifndef KEEL_BACKENDS_VULKAN_SPIRV_H_
#define KEEL_BACKENDS_VULKAN_SPIRV_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace keel::vulkan {

// One argument: a member of a kernel's push constant block.
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
  std::vector<SpirvArgument> arguments;  // ordered by offset
};

struct SpirvModule {
  std::vector<SpirvKernel> kernels;
  std::vector<uint32_t> capabilities;
};

// Parses |size| bytes. Returns KEEL_INVALID_ARGUMENT, with the defect as text, for bytes that are
// not SPIR-V, or for modules that need unsupported features (descriptors, a computed workgroup
// size). Does not trust the input: never reads beyond |size|.
keel_status read_spirv(const void* data, uint64_t size, SpirvModule* out_module);

// Validates the module with SPIRV-Tools, if this build includes them. Returns KEEL_INVALID_ARGUMENT
// with the validator's message.
keel_status validate_spirv(const void* data, uint64_t size);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_SPIRV_H_
