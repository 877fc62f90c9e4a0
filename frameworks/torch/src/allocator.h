// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory of the CPU from Keel's arenas, which the other ranks read in place.
#ifndef FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_
#define FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_

namespace keel_torch {

// Makes every later tensor of the CPU of 16 KiB and more memory of keel_alloc. Tensors made before
// keep theirs. Collectives of such tensors copy nothing to other memory first. The memory is
// shared: a process forked later, a DataLoader's worker for example, writes to the same tensors as
// its parent, where without Keel it would write to copies. Throws c10::DistBackendError where the
// host cannot reach the device's memory. Thread-safe.
void use_allocator();

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_ALLOCATOR_H_
