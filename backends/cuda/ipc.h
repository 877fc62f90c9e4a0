// SPDX-License-Identifier: Apache-2.0
// Memory that other processes reach: the driver's handles of whole allocations.
#ifndef KEEL_BACKENDS_CUDA_IPC_H_
#define KEEL_BACKENDS_CUDA_IPC_H_

#include <cuda.h>
#include <keel/abi.h>

#include <memory>

#include "backends/cuda/device.h"

namespace keel::cuda {

// Whether the driver has the functions and |device| takes part.
bool can_share_memory(const Functions& cu, CUdevice device);

// Any part of an allocation of cuMemAlloc. Others, pools' among them, the driver refuses.
keel_status export_memory(Device& device, const void* pointer, uint64_t size, keel_export_kind kind,
                          keel_memory_export* out_export);

// Memory of another process. Each has to be closed, though those of one allocation are one mapping.
class Import {
 public:
  static keel_status open(Device& device, const keel_memory_export& exported, void** out_pointer,
                          std::unique_ptr<Import>* out_import);
  // No work uses it any more. Once that is good there is nothing left but to delete this.
  keel_status close(Device& device) const;

 private:
  Import() = default;

  CUdeviceptr base_ = 0;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_IPC_H_
