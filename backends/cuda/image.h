// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_IMAGE_H_
#define KEEL_BACKENDS_CUDA_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keel::cuda {

// Returns the defect of a module image of |size| bytes, or NULL. The driver receives no size and
// trusts the image's headers. An image is ELF (a cubin), a fat binary, or PTX; the driver checks
// the target chip.
const char* find_image_defect(const void* data, uint64_t size);

// A copy of the image that the driver can read: aligned, and followed by a 0 that terminates PTX.
class Image {
 public:
  Image(const void* data, uint64_t size);
  const void* data() const { return units_.data(); }

 private:
  struct alignas(64) Unit {
    std::byte bytes[64];
  };
  std::vector<Unit> units_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_IMAGE_H_
