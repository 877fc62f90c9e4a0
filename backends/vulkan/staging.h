// SPDX-License-Identifier: Apache-2.0
// A ring of bounce buffers in pinned memory, through which one stream copies pageable host memory.
#ifndef KEEL_BACKENDS_VULKAN_STAGING_H_
#define KEEL_BACKENDS_VULKAN_STAGING_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <mutex>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/queue.h"

namespace keel::vulkan {

// Used by one thread at a time, like the stream; call submitted() with the same mutex held. The
// first reserve() allocates the memory.
class Staging {
 public:
  // Size of a slot and of the largest reservation. The ring has four slots: 1 MiB per stream.
  static constexpr uint64_t kSlotBytes = 256 << 10;

  explicit Staging(Memory& memory) : memory_(memory) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Reserves |size| <= kSlotBytes bytes until the submission passed to the next submitted() has
  // finished. Blocks while work in flight occupies the ring, and releases |held| meanwhile. Returns
  // KEEL_NOT_READY if unsubmitted commands occupy the ring: the caller submits them and retries.
  keel_status reserve(Queue& queue, uint64_t size, std::mutex& held, BufferByte* out_place);
  // Declares that all commands using the reservations so far finish at |value|.
  void submitted(uint64_t value);

 private:
  static constexpr uint32_t kSlots = 4;
  static constexpr uint64_t kUnsubmitted = UINT64_MAX;

  Memory& memory_;
  Block block_;
  std::array<uint64_t, kSlots> done_at_ = {};
  uint32_t slot_ = 0;
  uint64_t used_ = 0;  // bytes used in the slot |slot_|
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_STAGING_H_
