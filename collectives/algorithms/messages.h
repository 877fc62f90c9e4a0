// SPDX-License-Identifier: Apache-2.0
// Sends and receives, one or a group of them.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_MESSAGES_H_
#define KEEL_COLLECTIVES_ALGORITHMS_MESSAGES_H_

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// The sender says where its data is, the receiver reads it there and answers. What one side
// cannot reach goes through a stage of the transfer's own, window by window. All transfers
// of a group go on together: none waits for another. Of one that its rank has refused the peer is
// told, and no buffer is touched. For one thread.
class MessageExchange {
 public:
  explicit MessageExchange(RankContext& context) : context_(context), counters_(context.world()) {}

  // The first failure of a transfer that this rank has not refused. One that ends its transfer
  // alone is KEEL_INVALID_ARGUMENT or KEEL_RANK_FAILED; any other is for the caller to end the
  // communicator with.
  Status run(const std::vector<Transfer>& transfers, Patience& patience);

 private:
  enum class State { kPosting, kMoving, kDone };
  struct Moving {
    const Transfer* transfer;
    uint64_t sequence;
    State state = State::kPosting;
    Side side;
    std::unique_ptr<Stage> stage;
    uint64_t windows = 0;  // in all
    uint64_t fetched = 0;  // windows that were started to be staged, or received
  };
  struct Counters {
    uint64_t sent = 0;
    uint64_t received = 0;
    // Of each place for messages to the peer: up to which one their answers were read here.
    std::array<uint64_t, ControlSegment::kMails> settled = {};
  };

  Status begin(const Transfer& transfer, Moving* out_moving);
  // Goes as far as it can; |*out_moved|: whether it got anywhere.
  Status advance(Moving& moving, Patience& patience);
  Status advance_send(Moving& moving, Mail& mail, Patience& patience);
  Status advance_receive(Moving& moving, Mail& mail, Patience& patience);
  Status post(Moving& moving, Mail& mail);
  Status stage_windows(Moving& moving, Mail& mail, Patience& patience);
  Status receive_window(Moving& moving, const Mail& mail, uint64_t window, Patience& patience);
  // How it is looked for ranks that wait for each other for good.
  struct Look {
    std::optional<Deadline> next;
    uint32_t seen = 0;  // times that it was found so
  };
  void end_standstill(Look* look);
  Status lease_stage(Moving& moving);
  void finish(Moving& moving);
  void answer(Mail& mail, uint64_t sequence, uint32_t sender, keel_status status);
  // What |rank| sends or receives by |transfer| is refused: there with |code|.
  Status refusal(uint32_t rank, const Transfer& own, keel_status code) const;
  Status mismatch(uint32_t sender, uint64_t sent, keel_dtype sent_dtype, uint32_t receiver,
                  uint64_t wanted, keel_dtype wanted_dtype) const;

  RankContext& context_;
  std::vector<Counters> counters_;              // one a peer
  std::vector<std::unique_ptr<Stage>> stages_;  // kept for later transfers
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_MESSAGES_H_
