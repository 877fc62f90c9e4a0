// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/scratch.h"

#include <algorithm>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {

Scratch::~Scratch() {
  for (const DeviceAddress block : blocks_) {
    (void)device_.release(Names::MemFree, [&](const Functions& api) { return api.MemFree(block); });
  }
  if (used_ == nullptr) return;
  (void)device_.release(Names::EventDestroy,
                        [&](const Functions& api) { return api.EventDestroy(used_); });
}

keel_status Scratch::take(const Stream& stream, uint64_t size, DeviceAddress* out_memory) {
  keel_status status = size <= size_ ? keel_status{KEEL_OK} : grow(size);
  if (status == KEEL_OK && used_ == nullptr) {
    status = device_.call(Names::EventCreate, [&](const Functions& api) {
      return api.EventCreate(&used_, kEventDisableTiming);
    });
  }
  // Waiting for an event that was never recorded is a no-op.
  if (status == KEEL_OK) {
    status = stream.call(Names::StreamWaitEvent, [&](const Functions& api) {
      return api.StreamWaitEvent(stream.native(), used_, kEventWaitDefault);
    });
  }
  if (status == KEEL_OK) *out_memory = blocks_.back();
  return status;
}

keel_status Scratch::give_back(const Stream& stream) {
  return stream.call(Names::EventRecord,
                     [&](const Functions& api) { return api.EventRecord(used_, stream.native()); });
}

keel_status Scratch::grow(uint64_t size) {
  constexpr uint64_t kSmallest = 1 << 20;
  const uint64_t wanted = std::max({size, 2 * size_, kSmallest});
  blocks_.reserve(blocks_.size() + 1);
  DeviceAddress block = 0;
  const keel_status status = device_.call(
      Names::MemAlloc, [&](const Functions& api) { return api.MemAlloc(&block, wanted); });
  if (status != KEEL_OK) return status;
  blocks_.push_back(block);
  size_ = wanted;
  return KEEL_OK;
}

}  // namespace keel::gpu
