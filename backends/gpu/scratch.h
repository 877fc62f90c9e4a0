// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_SCRATCH_H_
#define KEEL_BACKENDS_GPU_SCRATCH_H_

#include <gpu_target.h>
#include <keel/abi.h>

#include <cstdint>
#include <vector>

#include "backends/gpu/device.h"
#include "backends/gpu/stream.h"

namespace keel::gpu {

// Device memory for the temporary needs of successive pieces of work. Grows by doubling and frees
// memory only on destruction, because freeing waits for the device. Not thread-safe.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}
  // Requires that the work using the memory has finished.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns |size| bytes for work enqueued on |stream| until give_back. The stream first waits for
  // all earlier users of the memory.
  keel_status take(const Stream& stream, uint64_t size, DeviceAddress* out_memory);
  keel_status give_back(const Stream& stream);

 private:
  keel_status grow(uint64_t size);

  Device& device_;
  std::vector<DeviceAddress> blocks_;  // the last block is in use
  uint64_t size_ = 0;
  NativeEvent used_ = nullptr;  // recorded behind the last user's work
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_SCRATCH_H_
