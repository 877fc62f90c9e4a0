// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory of the CPU from Keel's arenas, which the other ranks read in place.
#ifndef FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_
#define FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_

namespace keel_torch {

// Allocates every later CPU tensor of 16 KiB and more by keel_alloc; earlier tensors keep their
// memory. Collectives read such tensors in place. The memory is shared: a process forked later, a
// DataLoader's worker for example, writes to the parent's tensors instead of private copies. Throws
// c10::DistBackendError where the host cannot reach the device's memory. Thread-safe. Analogue:
// c10::SetCPUAllocator.
void use_allocator();

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_
