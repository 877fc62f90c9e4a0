// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_SIMT_IMAGE_H_
#define KEEL_BACKENDS_SIMT_IMAGE_H_

#include <cstddef>
#include <span>

namespace keel::simt {

// The fat binary of kernels.cc that was made with this build; empty where there was no nvcc.
// Aligned to 64 bytes.
std::span<const std::byte> cuda_image();
// Of the CUDA that made it, as CUDA_VERSION counts: a driver that is older may refuse it.
int cuda_image_version();

}  // namespace keel::simt

#endif  // KEEL_BACKENDS_SIMT_IMAGE_H_
