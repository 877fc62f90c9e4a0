// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_KERNELS_H_
#define KEEL_BACKENDS_CUDA_KERNELS_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>

#include "backends/simt/kernels.h"

namespace keel::cuda {

class Device;
struct Functions;

// The operators' kernels on one device, a module for each family. All are loaded when the device is
// opened: a launch looks for nothing, and does not wait for the device's work, as loading may.
// Immutable; thread-safe.
class Kernels {
 public:
  // Whether this build has kernels, and a device of |major| compute capability takes them; 0 where
  // the driver does not tell, which loading then finds out.
  static bool are_for(int major);

  // Whether a driver is new enough for them; only loading tells what an older one says, which may
  // not know the PTX.
  static bool surely_load(int driver_version);

  // NULL, with a warning in the log, where they cannot be loaded; without one where there are none.
  static std::unique_ptr<Kernels> load(Device& device);
  // Before it is destroyed, with the device that it was loaded on.
  void unload(Device& device);

  CUfunction operator[](simt::KernelId id) const { return functions_[static_cast<size_t>(id)]; }
  uint32_t multiprocessors() const { return multiprocessors_; }

 private:
  Kernels() = default;
  // In the device's context. A failure is one of |*out_call| on |*out_name|.
  CUresult load_images(const Functions& cu, const char** out_call, const char** out_name);

  std::array<CUmodule, simt::kFamilies> modules_ = {};
  std::array<CUfunction, static_cast<size_t>(simt::KernelId::kCount)> functions_ = {};
  uint32_t multiprocessors_ = 1;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_KERNELS_H_
