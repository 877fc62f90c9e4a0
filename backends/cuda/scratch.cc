// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scratch.h"

#include <algorithm>

namespace keel::cuda {

Scratch::~Scratch() {
  for (const CUdeviceptr block : blocks_) {
    (void)device_.release("cuMemFree", [&](const Functions& cu) { return cu.MemFree(block); });
  }
  if (used_ == nullptr) return;
  (void)device_.release("cuEventDestroy",
                        [&](const Functions& cu) { return cu.EventDestroy(used_); });
}

keel_status Scratch::take(const Stream& stream, uint64_t size, CUdeviceptr* out_memory) {
  keel_status status = size <= size_ ? keel_status{KEEL_OK} : grow(size);
  if (status == KEEL_OK && used_ == nullptr) {
    status = device_.call("cuEventCreate", [&](const Functions& cu) {
      return cu.EventCreate(&used_, CU_EVENT_DISABLE_TIMING);
    });
  }
  // Waiting for an event that was never recorded is a no-op.
  if (status == KEEL_OK) {
    status = stream.call("cuStreamWaitEvent", [&](const Functions& cu) {
      return cu.StreamWaitEvent(stream.native(), used_, CU_EVENT_WAIT_DEFAULT);
    });
  }
  if (status == KEEL_OK) *out_memory = blocks_.back();
  return status;
}

keel_status Scratch::give_back(const Stream& stream) {
  return stream.call("cuEventRecord",
                     [&](const Functions& cu) { return cu.EventRecord(used_, stream.native()); });
}

keel_status Scratch::grow(uint64_t size) {
  constexpr uint64_t kSmallest = 1 << 20;
  const uint64_t wanted = std::max({size, 2 * size_, kSmallest});
  blocks_.reserve(blocks_.size() + 1);
  CUdeviceptr block = 0;
  const keel_status status =
      device_.call("cuMemAlloc", [&](const Functions& cu) { return cu.MemAlloc(&block, wanted); });
  if (status != KEEL_OK) return status;
  blocks_.push_back(block);
  size_ = wanted;
  return KEEL_OK;
}

}  // namespace keel::cuda
