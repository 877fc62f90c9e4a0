// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_SIMT_IMAGE_H_
#define KEEL_BACKENDS_SIMT_IMAGE_H_

#include <cstddef>
#include <span>

namespace keel::simt {

// The fat binary of one family of kernels, made with this build.
struct CudaImage {
  const char* family;
  std::span<const char* const> kernels;  // the names by which they are launched
  std::span<const std::byte> bytes;      // aligned to 64
};

// The images of all families; their kernels one after the other are in the order of KernelId.
// Empty where there was no nvcc.
std::span<const CudaImage> cuda_images();
// The CUDA version of the images, as CUDA_VERSION counts: an older driver may refuse them.
int cuda_image_version();

}  // namespace keel::simt

#endif  // KEEL_BACKENDS_SIMT_IMAGE_H_
