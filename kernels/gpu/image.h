// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_KERNELS_GPU_IMAGE_H_
#define KEEL_KERNELS_GPU_IMAGE_H_

#include <cstddef>
#include <span>

namespace keel::simt {

// The image of one kernel family, built with this tree.
struct Image {
  const char* family;
  std::span<const char* const> kernels;  // launch names
  std::span<const std::byte> bytes;      // aligned to 64
};

// Returns the images of all families; their kernels, concatenated, are in the order of KernelId.
// Empty in a build without nvcc.
std::span<const Image> cuda_images();
// Returns the images' CUDA version, in the numbering of CUDA_VERSION; an older driver may refuse
// the images.
int cuda_image_version();

// Returns the bundles of AMD code objects, likewise: see hip_image.cc.
std::span<const Image> hip_images();
// Returns the architectures with code in the bundles, such as "gfx90a gfx1030"; empty: none.
const char* hip_architectures();

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_IMAGE_H_
