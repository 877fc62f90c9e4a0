// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUDA_HOST_IMAGE_H_
#define KEEL_EMULATOR_SHIMS_CUDA_HOST_IMAGE_H_

#include <cuda.h>
#include <keel/cpu_kernel.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::emulator::cuda {

// Returns whether |image| begins as a fat binary or as a bundle, code for several chips.
bool is_fat_binary(const void* image);
// Returns whether |image| begins as a bundle of code objects, the fat binary of HIP, and the size
// of such an image.
bool is_bundle(const void* image);
uint64_t bundle_size(const void* image);

// The shim's counterpart of a cubin: a shared object for this machine, with kernels as in
// keel/cpu_kernel.h and, for each kernel, the table KEEL_CPU_PARAMETERS. Device pointers are
// converted to host addresses before a kernel gets them. Immutable once open; thread-safe.
class HostImage {
 public:
  // |image| must be complete, as for the real driver. Returns CUDA_ERROR_NO_BINARY_FOR_GPU for code
  // of real chips, CUDA_ERROR_INVALID_IMAGE for anything else; |*out_why| has details.
  static CUresult open(const void* image, std::shared_ptr<const HostImage>* out_image,
                       std::string* out_why);
  ~HostImage();
  HostImage(const HostImage&) = delete;
  HostImage& operator=(const HostImage&) = delete;

  // Returns false if the kernel or its parameter table is missing.
  bool find(const char* name, keel_cpu_kernel* out_kernel, const uint32_t** out_parameters) const;

 private:
  HostImage(int fd, void* library) : fd_(fd), library_(library) {}

  const int fd_;  // open while the loader may know the object by its path
  void* const library_;
};

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_HOST_IMAGE_H_
