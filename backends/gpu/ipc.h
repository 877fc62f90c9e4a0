// SPDX-License-Identifier: Apache-2.0
// Memory shared between processes, by the driver's handles of whole allocations.
#ifndef KEEL_BACKENDS_GPU_IPC_H_
#define KEEL_BACKENDS_GPU_IPC_H_

#include <gpu_target.h>
#include <keel/abi.h>

#include <memory>

#include "backends/gpu/device.h"

namespace keel::gpu {

// Whether the driver has the functions and |device| supports IPC.
bool can_share_memory(const Functions& api, NativeDevice device);

// Exports any part of an allocation made by cuMemAlloc. The driver refuses other memory, including
// memory pools.
keel_status export_memory(Device& device, const void* pointer, uint64_t size, keel_export_kind kind,
                          keel_memory_export* out_export);

// Memory of another process. Close each import, though imports of one allocation share a mapping.
class Import {
 public:
  static keel_status open(Device& device, const keel_memory_export& exported, void** out_pointer,
                          std::unique_ptr<Import>* out_import);
  // Requires that no work uses the memory any more. After success, delete this object; no other
  // call is valid.
  keel_status close(Device& device) const;

 private:
  Import() = default;

  DeviceAddress base_ = 0;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_IPC_H_
