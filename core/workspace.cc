// SPDX-License-Identifier: Apache-2.0
#include "core/workspace.h"

#include <algorithm>

#include "core/device.h"
#include "core/stream.h"

namespace keel {

Status Workspace::get(Stream& stream, uint64_t size, void** out_pointer) {
  uint64_t grown = size;
  {
    std::lock_guard lock(mutex_);
    if (size <= size_) {
      *out_pointer = buffers_.back();
      return {};
    }
    grown = std::max(size, 2 * size_);
  }
  // Without the lock: an allocation may advance other streams.
  Memory& memory = stream.device().memory();
  void* larger = nullptr;
  Status status = memory.alloc(stream, grown, &larger);
  if (status.code() == KEEL_OUT_OF_MEMORY && grown > size) {
    grown = size;
    status = memory.alloc(stream, grown, &larger);
  }
  KEEL_RETURN_IF_ERROR(status);
  std::lock_guard lock(mutex_);
  buffers_.insert(grown > size_ ? buffers_.end() : buffers_.begin(), larger);
  size_ = std::max(size_, grown);
  *out_pointer = larger;
  return {};
}

Status Workspace::free_all(Memory& memory) {
  std::vector<void*> buffers;
  {
    std::lock_guard lock(mutex_);
    buffers.swap(buffers_);
    size_ = 0;
  }
  for (void* buffer : buffers) KEEL_RETURN_IF_ERROR(memory.free(buffer));
  return {};
}

}  // namespace keel
