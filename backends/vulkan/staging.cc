// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/staging.h"

namespace keel::vulkan {

namespace {

constexpr int64_t kForeverNs = INT64_MAX;

}  // namespace

Staging::~Staging() {
  if (block_.buffer != VK_NULL_HANDLE) memory_.destroy(block_);
}

keel_status Staging::reserve(Queue& queue, uint64_t size, std::mutex& held, BufferByte* out_place) {
  if (block_.buffer == VK_NULL_HANDLE) {
    const keel_status status = memory_.create_pinned(kSlots * kSlotBytes, &block_);
    if (status != KEEL_OK) return status;
  }
  if (used_ + size > kSlotBytes) {
    const uint32_t next = (slot_ + 1) % kSlots;
    if (done_at_[next] == kUnsubmitted) return KEEL_NOT_READY;
    const uint64_t done_at = done_at_[next];
    held.unlock();
    const keel_status status = queue.wait(done_at, kForeverNs);
    held.lock();
    if (status != KEEL_OK) return status;
    slot_ = next;
    used_ = 0;
  }
  const uint64_t offset = slot_ * kSlotBytes + used_;
  *out_place = {};
  out_place->buffer = block_.buffer;
  out_place->offset = offset;
  out_place->host = static_cast<char*>(block_.host) + offset;
  used_ += (size + 15) & ~uint64_t{15};
  done_at_[slot_] = kUnsubmitted;
  return KEEL_OK;
}

void Staging::submitted(uint64_t value) {
  for (uint64_t& done_at : done_at_) {
    if (done_at == kUnsubmitted) done_at = value;
  }
}

}  // namespace keel::vulkan
