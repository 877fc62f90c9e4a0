// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_KERNELS_H_
#define KEEL_BACKENDS_LEVEL_ZERO_KERNELS_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/gpu/kernels.h"
#include "vendor/level_zero.h"

namespace keel::gpu {

class Device;
class Stream;

// Returns a build's log, ": " and at most 300 bytes of it, and destroys it; empty for an empty log.
std::string take_log(const ze::Functions& ze, ze::BuildLog log);

// The operators' kernels on one device, one module per family. Device::open loads all kernels, so
// that no launch compiles. Thread-safe.
class Kernels {
 public:
  // Whether this build has kernels, and |device| runs the groups and subgroups that they require,
  // with their group memory.
  static bool are_for(const ze::Functions& functions, ze::Device device);

  // Returns NULL if the kernels cannot be loaded, with a warning in the log, or if there are none,
  // without a warning.
  static std::unique_ptr<Kernels> load(Device& device, const ze::DeviceProperties& properties);
  // Call before destruction, with the device passed to load.
  void unload(Device& device);

  // Enqueues |id| over |blocks_x| x |blocks_y| blocks. Copies |size| bytes of |arguments|.
  keel_status launch(Stream& stream, simt::KernelId id, uint32_t blocks_x, uint32_t blocks_y,
                     const void* arguments, size_t size) const;
  uint32_t multiprocessors() const { return multiprocessors_; }
  // Whether this device has the kernels of |call|: on one without 64-bit floats, operators that
  // compute in those have none.
  bool can_compute(const keel_op_call& call) const;

 private:
  // A native kernel contains the arguments of its next launch: one thread at a time sets them and
  // launches.
  struct Kernel {
    ze::Kernel native = nullptr;
    mutable std::mutex mutex;
  };

  Kernels() = default;
  // Whether the device has 64-bit floats.
  static bool find_doubles(Device& device);
  // On failure, |*out_what| is the function that failed, its argument and the build's log.
  ze::Result load_images(Device& device, std::string* out_what);

  std::array<ze::Module, simt::kFamilies> modules_ = {};
  std::vector<Kernel> kernels_{static_cast<size_t>(simt::KernelId::kCount)};
  uint32_t multiprocessors_ = 16;
  bool has_doubles_ = false;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_KERNELS_H_
