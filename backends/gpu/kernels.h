// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_KERNELS_H_
#define KEEL_BACKENDS_GPU_KERNELS_H_

#include <gpu_target.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/gpu/image.h"
#include "kernels/gpu/kernels.h"

namespace keel::gpu {

class Device;
class Stream;

// The images of the kernels in this build, which the target selects; empty: none. And the version
// of the driver from which on the driver surely loads the images.
std::span<const simt::Image> images();
int image_version();

// The operators' kernels on one device, one module per family. Device::open loads all kernels:
// loading may wait for the device's work, so a launch must never load. Immutable; thread-safe.
class Kernels {
 public:
  // Whether this build has kernels and a device of compute capability |capability| can run them.
  // |capability| is 0 if the driver does not report one; loading then decides.
  static bool are_for(int capability);

  // Whether the driver is new enough for the kernels. An older driver may not know their format;
  // only loading tells.
  static bool surely_load(int driver_version);

  // Returns NULL if the kernels cannot be loaded, with a warning in the log, or if there are none,
  // without a warning.
  static std::unique_ptr<Kernels> load(Device& device);
  // Call before destruction, with the device passed to load.
  void unload(Device& device);

  // Enqueues |id| over |blocks_x| x |blocks_y| blocks. Copies |size| bytes of |arguments|.
  keel_status launch(Stream& stream, simt::KernelId id, uint32_t blocks_x, uint32_t blocks_y,
                     const void* arguments, size_t size) const;
  uint32_t multiprocessors() const { return multiprocessors_; }

 private:
  Kernels() = default;
  // Requires the device's context. On failure, |*out_call| is the function that failed, |*out_name|
  // its argument, and |*out_log| what else is known.
  Result load_images(const Device& device, const char** out_call, const char** out_name,
                     std::string* out_log);

  std::array<NativeModule, simt::kFamilies> modules_ = {};
  std::array<NativeFunction, static_cast<size_t>(simt::KernelId::kCount)> functions_ = {};
  uint32_t multiprocessors_ = 1;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_KERNELS_H_
