// SPDX-License-Identifier: Apache-2.0
// Sends and receives, single or in groups.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_MESSAGES_H_
#define KEEL_COLLECTIVES_ALGORITHMS_MESSAGES_H_

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// The sender publishes where its data is; the receiver reads the data there and answers.
// Unreachable data passes through a staging pipeline of the transfer, chunk by chunk. All transfers
// of a group progress together, without waiting for each other. If a rank has refused a transfer,
// the peer is informed and no buffer is touched. For one thread.
//
// A send of at most PointToPointSlots::kBufferBytes whose receive has not begun is buffered: its
// data is copied into the segment, and the send is over (MPI's eager protocol; all others are its
// rendezvous). Not so in a group with receives, which needs no buffer to proceed and is told of a
// refusal. Each rank has PointToPointSlots::kBuffers of these; with all in use, a send waits for
// its receive.
class PointToPointTransfers {
 public:
  explicit PointToPointTransfers(RankContext& context)
      : context_(context), counters_(context.world()) {}

  // Returns the first failure of a transfer not refused by this rank. KEEL_INVALID_ARGUMENT and
  // KEEL_RANK_FAILED end a single transfer; after all further codes the caller ends the
  // communicator.
  Status run(const std::vector<Transfer>& transfers, WaitContext& wait_context);
  // Returns, once, the first failure of a buffered send that is known by now.
  Status take_buffered_failure() { return std::exchange(buffered_failure_, {}); }

 private:
  enum class State { kPosting, kMoving, kDone };
  struct Moving {
    const Transfer* transfer;
    uint64_t sequence;
    State state = State::kPosting;
    Side side;
    std::unique_ptr<StagingPipeline> stage;
    uint64_t windows = 0;  // in total
    uint64_t fetched = 0;  // chunks with staging started, or received
  };
  struct Counters {
    uint64_t sent = 0;
    uint64_t received = 0;
    // For each slot of messages to the peer: number, plus one, of the last message with a read
    // answer.
    std::array<uint64_t, PointToPointSlots::kSlots> settled = {};
  };

  Status begin(const Transfer& transfer, Moving* out_moving);
  // Advances the transfer as far as possible.
  Status advance(Moving& moving, WaitContext& wait_context);
  Status advance_send(Moving& moving, PointToPointSlot& slot, WaitContext& wait_context);
  Status advance_receive(Moving& moving, PointToPointSlot& slot, WaitContext& wait_context);
  // Hands the message to the receiver. |buffered|: as in the slot.
  void publish(const Moving& moving, PointToPointSlot& slot, uint32_t buffered);
  bool can_buffer(const Moving& moving, uint32_t* out_index);
  // Copies the data into buffer |index| and publishes the message.
  Status send_buffered(Moving& moving, PointToPointSlot& slot, uint32_t index,
                       WaitContext& wait_context);
  // Frees the buffers of messages that have been received, and keeps the failure of one that was
  // not.
  void collect_buffers();
  // The send waits until the peer has begun |receives| receives.
  void await_receives(uint32_t peer, uint64_t receives);
  Status stage_windows(Moving& moving, PointToPointSlot& slot, WaitContext& wait_context);
  Status receive_window(Moving& moving, const PointToPointSlot& slot, uint64_t window,
                        WaitContext& wait_context);
  // State of the repeated search for a deadlock.
  struct Look {
    std::optional<Deadline> next;
    uint32_t seen = 0;  // number of searches that found a deadlock
  };
  void end_deadlock(Look* look);
  Status lease_staging(Moving& moving);
  void finish(Moving& moving);
  void answer(PointToPointSlot& slot, uint64_t sequence, uint32_t sender, keel_status status);
  // Failure of transfer |own|, because |rank| has refused the matching half with |code|.
  Status refusal(uint32_t rank, const Transfer& own, keel_status code) const;
  Status mismatch(uint32_t sender, uint64_t sent, keel_dtype sent_dtype, uint32_t receiver,
                  uint64_t wanted, keel_dtype wanted_dtype) const;

  struct MessageBuffer {
    bool in_use = false;
    uint32_t peer = 0;
    uint64_t sequence = 0;
  };

  RankContext& context_;
  std::array<MessageBuffer, PointToPointSlots::kBuffers> buffers_;
  uint32_t buffers_in_use_ = 0;
  bool only_sends_ = false;  // the transfers of run()
  Status buffered_failure_;
  std::vector<Counters> counters_;                        // one per peer
  std::vector<std::unique_ptr<StagingPipeline>> stages_;  // kept for later transfers
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_MESSAGES_H_
