// SPDX-License-Identifier: Apache-2.0
// A small ring of pinned memory through which one stream passes pageable host
// memory.
#ifndef KEEL_BACKENDS_VULKAN_STAGING_H_
#define KEEL_BACKENDS_VULKAN_STAGING_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <mutex>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/queue.h"

namespace keel::vulkan {

// One thread at a time, as its stream; submitted() with the same mutex held. The memory is
// allocated by the first reserve().
class Staging {
 public:
  // Of the largest reservation. Four of these make the ring: 1 MiB a stream.
  static constexpr uint64_t kSlotBytes = 256 << 10;

  explicit Staging(Memory& memory) : memory_(memory) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // |size| <= kSlotBytes bytes that stay reserved until the submission that the
  // next submitted() names is done. Blocks while the ring is full of work in
  // flight, with |held| given away. KEEL_NOT_READY: what fills it has not been submitted;
  // submit, call again.
  keel_status reserve(Queue& queue, uint64_t size, std::mutex& held, Place* out_place);
  // The commands that use what was reserved so far are done at |value|.
  void submitted(uint64_t value);

 private:
  static constexpr uint32_t kSlots = 4;
  static constexpr uint64_t kUnsubmitted = UINT64_MAX;

  Memory& memory_;
  Block block_;
  std::array<uint64_t, kSlots> done_at_ = {};
  uint32_t slot_ = 0;
  uint64_t used_ = 0;  // bytes of slots_[slot_]
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_STAGING_H_
