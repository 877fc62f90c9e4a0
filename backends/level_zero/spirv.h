// SPDX-License-Identifier: Apache-2.0
// Parses a user's SPIR-V module before a driver sees it: its kernels and their parameters.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_SPIRV_H_
#define KEEL_BACKENDS_LEVEL_ZERO_SPIRV_H_

#include <keel/abi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace keel::gpu {

// A parameter of a kernel.
struct SpirvParameter {
  // The size of what the caller passes is not known, such as that of an image.
  static constexpr uint64_t kUnknown = UINT64_MAX;

  uint64_t bytes = kUnknown;
  bool is_local = false;  // a pointer to memory of the group, which has no value
};

struct SpirvKernel {
  std::string name;
  std::vector<SpirvParameter> parameters;
};

// Parses |size| bytes. Returns KEEL_INVALID_ARGUMENT, with the defect as text, for bytes that are
// no SPIR-V or none for OpenCL. Does not trust the input: never reads beyond |size|.
keel_status read_spirv(const void* data, uint64_t size, std::vector<SpirvKernel>* out_kernels);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_SPIRV_H_
