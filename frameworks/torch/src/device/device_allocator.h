// SPDX-License-Identifier: Apache-2.0
// The memory of tensors of a keel device, from Keel's stream-ordered allocator.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_DEVICE_ALLOCATOR_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_DEVICE_ALLOCATOR_H_

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace keel_torch::device {

// Allocates on the calling thread's device and stream. Throws torch.OutOfMemoryError once Keel has
// returned its cache, and this allocator its own, and the memory still does not suffice.
c10::DeviceAllocator* device_allocator();

// Delays the reuse of |pointer|'s memory after its release until the work that |stream| has by then
// is done. Does nothing for memory of another allocator.
void record_stream(const c10::DataPtr& pointer, const c10::Stream& stream);

// Gives |storage|, of a keel device, |bytes| of memory, and copies what it held in stream order.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Returns unused memory of all devices to the system.
void empty_cache();

// Memory that the host reads and |device|'s copies reach without a bounce buffer.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_DEVICE_ALLOCATOR_H_
