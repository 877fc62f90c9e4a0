// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_KERNELS_H_
#define KEEL_BACKENDS_CUDA_KERNELS_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/gpu/kernels.h"

namespace keel::cuda {

class Device;
struct Functions;

// The operators' kernels on one device, one module per family. Device::open loads all kernels:
// loading may wait for the device's work, so a launch must never load. Immutable; thread-safe.
class Kernels {
 public:
  // Whether this build has kernels and a device of compute capability |major| can run them. |major|
  // is 0 if the driver does not report the capability; the answer is then true, and loading
  // decides.
  static bool are_for(int major);

  // Whether the driver is new enough for the kernels. An older driver may not know the PTX; only
  // loading tells.
  static bool surely_load(int driver_version);

  // Returns NULL if the kernels cannot be loaded, with a warning in the log, or if there are none,
  // without a warning.
  static std::unique_ptr<Kernels> load(Device& device);
  // Call before destruction, with the device passed to load.
  void unload(Device& device);

  CUfunction operator[](simt::KernelId id) const { return functions_[static_cast<size_t>(id)]; }
  uint32_t multiprocessors() const { return multiprocessors_; }

 private:
  Kernels() = default;
  // Requires the device's context. On failure, |*out_call| is the function that failed and
  // |*out_name| its argument.
  CUresult load_images(const Functions& cu, const char** out_call, const char** out_name);

  std::array<CUmodule, simt::kFamilies> modules_ = {};
  std::array<CUfunction, static_cast<size_t>(simt::KernelId::kCount)> functions_ = {};
  uint32_t multiprocessors_ = 1;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_KERNELS_H_
