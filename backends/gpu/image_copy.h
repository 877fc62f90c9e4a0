// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_IMAGE_COPY_H_
#define KEEL_BACKENDS_GPU_IMAGE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace keel::gpu {

// A copy of a module image that a driver can read: aligned, and followed by a 0 that terminates
// text.
class ImageCopy {
 public:
  ImageCopy(const void* data, uint64_t size) : units_(size / sizeof(Unit) + 1) {
    std::memcpy(units_.data(), data, size);
  }
  const void* data() const { return units_.data(); }

 private:
  struct alignas(64) Unit {
    std::byte bytes[64];
  };
  std::vector<Unit> units_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_IMAGE_COPY_H_
