// SPDX-License-Identifier: Apache-2.0
// Point-to-point slots: the messages between two ranks of one host, outside of collectives.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_POINT_TO_POINT_SLOTS_H_
#define KEEL_COLLECTIVES_TRANSPORTS_POINT_TO_POINT_SLOTS_H_

#include <atomic>
#include <cstdint>

#include "collectives/transports/mem_handle.h"
#include "collectives/transports/wait_context.h"
#include "collectives/transports/waiter.h"
#include "core/status.h"

namespace keel {

// Point-to-point slot: one message from one rank to another.
struct alignas(64) PointToPointSlot {
  static constexpr uint32_t kStaged = 1;  // bit of |flags|

  // Number of the message among those of the ordered pair of ranks, plus one; stored last, to
  // publish the slot.
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> available;  // chunks staged by the sender so far
  std::atomic<uint64_t> taken;      // chunks read by the receiver so far
  std::atomic<uint64_t> answered;   // sequence + 1, once the receiver is done
  uint64_t count;
  uint32_t dtype;
  uint32_t flags;
  int32_t status;         // sender's, set with |sequence|: why its call was refused
  int32_t answer;         // receiver's, set with |answered|
  int32_t refusal;        // why the receiver's call was refused, if |answer| is KEEL_RANK_FAILED
  uint32_t buffered;      // 1 + index of the sender's message buffer with the data; 0: at |send|
  uint64_t wanted_count;  // receiver's count and type, if |answer| is a mismatch
  uint32_t wanted_dtype;
  uint32_t memory_epoch;
  MemHandle send;
};
static_assert(sizeof(PointToPointSlot) == 128);

// Point-to-point progress of one rank, read by the deadlock detection: see deadlock_detector.h.
struct alignas(64) PointToPointProgress {
  std::atomic<uint64_t> version;   // odd while the rank writes here or to its counters
  std::atomic<uint32_t> messages;  // messages in progress; 0: none
  // The first message in progress.
  std::atomic<uint32_t> sends;
  std::atomic<uint32_t> peer;
  std::atomic<uint32_t> dtype;
  std::atomic<uint64_t> count;
};

// Number of messages that a rank has begun with one peer.
struct ProgressCounters {
  std::atomic<uint64_t> sends;
  std::atomic<uint64_t> receives;
  // The rank waits until the peer has begun so many receives: less than |sends| where the last
  // sends were buffered.
  std::atomic<uint64_t> awaited_sends;
};

// Lies in the memory of a control segment. Thread-safe, provided that each rank's own entries are
// used by one thread.
class PointToPointSlots {
 public:
  static constexpr uint32_t kSlots = 2;  // messages in flight per pair
  // Buffers per rank, and bytes of each, for messages whose receive has not begun: a ring's two
  // neighbours, each with both of its slots.
  static constexpr uint32_t kBuffers = 4;
  static constexpr uint64_t kBufferBytes = 64 << 10;

  struct Memory {
    PointToPointSlot* slots;         // kSlots per ordered pair of ranks
    uint8_t* buffers;                // kBuffers of kBufferBytes per rank
    PointToPointProgress* progress;  // one per rank
    ProgressCounters* counters;      // one per ordered pair of ranks
  };

  PointToPointSlots(const Memory& memory, uint32_t world, const Waiter& waiter)
      : waiter_(waiter), memory_(memory), world_(world) {}
  PointToPointSlots(const PointToPointSlots&) = delete;
  PointToPointSlots& operator=(const PointToPointSlots&) = delete;

  PointToPointSlot& slot(uint32_t from, uint32_t to, uint64_t sequence) const {
    return memory_.slots[(uint64_t{from} * world_ + to) * kSlots + sequence % kSlots];
  }
  // Buffer |index| of the messages that |rank| sends.
  uint8_t* buffer(uint32_t rank, uint32_t index) const {
    return memory_.buffers + (uint64_t{rank} * kBuffers + index) * kBufferBytes;
  }
  PointToPointProgress& progress(uint32_t rank) const { return memory_.progress[rank]; }
  bool is_in_message(uint32_t rank) const {
    return progress(rank).messages.load(std::memory_order_acquire) != 0;
  }
  ProgressCounters& counters(uint32_t rank, uint32_t peer) const {
    return memory_.counters[uint64_t{rank} * world_ + peer];
  }

  // Wakes |rank| after a change of its slots.
  void notify(uint32_t rank) const { waiter_.words().wake_messages(rank); }
  // Waits as Waiter::await() does until |ready|() returns true, evaluated again after each
  // notify(|rank|).
  template <typename Ready, typename Missing, typename Look>
  Status await(uint32_t rank, const Ready& ready, const Missing& missing, const Look& look,
               WaitContext& wait_context) const {
    return waiter_.await(waiter_.words().messages(rank), ready, missing, look, wait_context);
  }

 private:
  const Waiter waiter_;
  const Memory memory_;
  const uint32_t world_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_POINT_TO_POINT_SLOTS_H_
