// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_IMAGE_H_
#define KEEL_BACKENDS_CUDA_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keel::cuda {

// What is wrong with a module image of |size| bytes, NULL if nothing is. The driver is told no
// size and takes the image's headers at their word. ELF (a cubin), a fat binary, or PTX; for which
// chip is the driver's to say.
const char* find_image_defect(const void* data, uint64_t size);

// The image where the driver may read it: aligned, and a 0 behind it, which ends PTX.
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
