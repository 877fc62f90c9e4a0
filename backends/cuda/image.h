// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_IMAGE_H_
#define KEEL_BACKENDS_CUDA_IMAGE_H_

#include <cstdint>

namespace keel::cuda {

// Returns the defect of a module image of |size| bytes, or NULL. The driver receives no size and
// trusts the image's headers. An image is ELF (a cubin), a fat binary, or PTX; the driver checks
// the target chip.
const char* find_image_defect(const void* data, uint64_t size);

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_IMAGE_H_
