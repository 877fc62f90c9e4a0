// SPDX-License-Identifier: Apache-2.0
// Memory shared between processes, by the driver's handles of whole allocations.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_IPC_H_
#define KEEL_BACKENDS_LEVEL_ZERO_IPC_H_

#include <keel/abi.h>

#include <memory>

#include "backends/level_zero/device.h"

namespace keel::gpu {

// Exports any part of an allocation of zeMemAllocDevice, as an opaque handle.
keel_status export_memory(Device& device, void* pointer, uint64_t size, keel_export_kind kind,
                          keel_memory_export* out_export);

// Memory of another process.
class Import {
 public:
  static keel_status open(Device& device, const keel_memory_export& exported, void** out_pointer,
                          std::unique_ptr<Import>* out_import);
  // Requires that no work uses the memory any more. After success, delete this object; no other
  // call is valid.
  keel_status close(Device& device) const;

 private:
  explicit Import(void* base) : base_(base) {}

  void* const base_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_IPC_H_
