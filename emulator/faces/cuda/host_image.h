// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_CUDA_HOST_IMAGE_H_
#define KEEL_EMULATOR_FACES_CUDA_HOST_IMAGE_H_

#include <cuda.h>
#include <keel/cpu_kernel.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::emulator::cuda {

// Whether |image| says that it is code for several chips.
bool is_fat_binary(const void* image);

// What stands for a cubin on the face: a shared object of this machine, with kernels as
// keel/cpu_kernel.h has them and, of each, the table KEEL_CPU_PARAMETERS. Device pointers are
// made addresses of the host before a kernel sees them. Immutable once open; thread-safe.
class HostImage {
 public:
  // |image| is all there, as for the real driver. CUDA_ERROR_NO_BINARY_FOR_GPU for code of real
  // chips, CUDA_ERROR_INVALID_IMAGE for what is no code; |*out_why| says more.
  static CUresult open(const void* image, std::shared_ptr<const HostImage>* out_image,
                       std::string* out_why);
  ~HostImage();
  HostImage(const HostImage&) = delete;
  HostImage& operator=(const HostImage&) = delete;

  // False where there is no such kernel, or no table of what it takes.
  bool find(const char* name, keel_cpu_kernel* out_kernel, const uint32_t** out_parameters) const;

 private:
  HostImage(int fd, void* library) : fd_(fd), library_(library) {}

  const int fd_;  // open as long as the loader may know the object by its path
  void* const library_;
};

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_HOST_IMAGE_H_
