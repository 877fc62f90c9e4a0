// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_KERNELS_GPU_LEVEL_ZERO_SPIRV_IMAGE_H_
#define KEEL_KERNELS_GPU_LEVEL_ZERO_SPIRV_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace keel::simt {

// Group memory that a device must have for the kernels, in bytes: an Intel GPU has 64 KiB for each
// subslice (OpenCL developer guide for processor graphics, 2019, "Work-Group Size
// Recommendations").
inline constexpr uint32_t kSpirvLocalBytes = 64 << 10;

// The SPIR-V of one kernel family, built with this tree.
struct SpirvImage {
  const char* family;
  std::span<const char* const> kernels;  // launch names
  std::span<const std::byte> bytes;      // aligned to 64
  bool has_doubles;                      // only for devices with 64-bit floats
};

// Returns the images of all families; their kernels, concatenated, are in the order of KernelId.
// Empty in a build without llvm-spirv.
std::span<const SpirvImage> spirv_images();

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_LEVEL_ZERO_SPIRV_IMAGE_H_
