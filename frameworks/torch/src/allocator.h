// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory of the CPU from Keel's arenas, which the other ranks read in place.
#ifndef FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_
#define FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_

namespace keel_torch {

// Allocates every later CPU tensor of 16 KiB and more by keel_alloc; earlier tensors keep their
// memory. Collectives read such tensors in place. The memory is shared between ranks; a process
// that is forked later, a DataLoader's worker for example, writes to private copies of the tensors
// (keel_init_options.fork_memory). Throws c10::DistBackendError where the host cannot reach the
// device's memory. Thread-safe. Analogue: c10::SetCPUAllocator.
void use_allocator();

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_
