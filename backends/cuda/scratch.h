// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_SCRATCH_H_
#define KEEL_BACKENDS_CUDA_SCRATCH_H_

#include <cuda.h>
#include <keel/abi.h>

#include <cstdint>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/stream.h"

namespace keel::cuda {

// Device memory for pieces of work that need some of their own, one after the other. It grows by
// doubling and is given back in the end, since freeing waits for the device. For one thread.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}
  // What used it is done.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // |size| bytes for what is enqueued on |stream| from now on until give_back: it runs after all
  // that has used them before.
  keel_status take(const Stream& stream, uint64_t size, CUdeviceptr* out_memory);
  keel_status give_back(const Stream& stream);

 private:
  keel_status grow(uint64_t size);

  Device& device_;
  std::vector<CUdeviceptr> blocks_;  // the last one is in use
  uint64_t size_ = 0;
  CUevent used_ = nullptr;  // where the last user's work ends
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_SCRATCH_H_
