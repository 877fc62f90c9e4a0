// SPDX-License-Identifier: Apache-2.0
// Memory of one rank in an operation between hosts, divided into rounds.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_BUFFERS_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_BUFFERS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/bridge/staging_pipeline.h"
#include "collectives/hosts/message_plan.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Rank and number of ranks of a message plan, and what its ranks agree on.
struct HostRanks {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint64_t chunk_bytes = 0;  // rank 0's
};

// A round takes the next elements of every part of every buffer; a chunk holds the parts of a
// round. The division depends on the call and on |HostRanks| alone, so that a message has the same
// size on both ends. Where the host does not reach the rank's memory, rounds pass through pinned
// chunks: while one round is on the wire, the device fills the chunks of later rounds and drains
// those of earlier ones. For one thread.
class HostBuffers {
 public:
  // Rounds whose messages are in flight at once. Each has scratch of its own.
  static constexpr uint32_t kDepth = 2;

  HostBuffers(RankContext& context, const HostRanks& ranks);

  // Begins an operation. Both references stay valid until the next begin().
  Status begin(const Request& request, const MessagePlan& plan);
  uint64_t rounds() const { return rounds_; }
  // Starts the copies that bring round |round| and the next ones to the host, and waits for those
  // of |round|. Rounds are entered in order; round - kDepth has been left.
  Status enter(uint64_t round, WaitContext& wait_context);
  // Starts the copies to the device of the results of |round|.
  Status leave(uint64_t round);
  // Waits until all results have arrived in the caller's memory.
  Status finish(WaitContext& wait_context);
  // After a failure: waits until no copy touches the caller's memory.
  void settle() { stage_.settle(); }

  struct Range {
    char* data = nullptr;
    uint64_t count = 0;  // elements
  };
  // The elements of |range| in |round|. |data| is undefined if |count| is 0.
  Range find(const PartRange& range, uint64_t round) const;
  uint64_t element() const { return element_; }

  // Scratch for messages of the slot |round| % kDepth: drop_landed() frees all of a slot's, land()
  // takes the next |bytes|. Pointers stay valid until drop_landed().
  void drop_landed(uint64_t round) { landed_[round % kDepth].used = 0; }
  char* land(uint64_t round, uint64_t bytes);

  bool is_staged() const { return send_.staged || receive_.staged; }
  uint64_t round_bytes() const { return round_elements_ * element_; }
  const StagingPipeline::Traffic& traffic() const { return stage_.traffic(); }

 private:
  // Blocks of memory that grow by a further block, so that pointers into earlier ones stay valid.
  struct Arena {
    std::vector<std::vector<char>> blocks;
    uint64_t used = 0;  // of the concatenated blocks
  };

  Status fetch(uint64_t round);
  void copy_exchanged();
  // The piece of |buffer| that |part| denotes, in elements.
  Piece piece_of(StepBuffer buffer, uint32_t part) const;
  uint64_t clip(uint64_t count, uint64_t round) const;
  uint64_t window_offset(uint32_t part) const { return part * round_elements_ * element_; }

  RankContext& context_;
  const HostRanks ranks_;
  const uint64_t window_bytes_;
  StagingPipeline stage_;
  const Request* request_ = nullptr;
  const MessagePlan* plan_ = nullptr;
  Side send_;
  Side receive_;
  uint64_t element_ = 1;
  uint32_t send_parts_ = 1;
  uint32_t receive_parts_ = 1;
  uint64_t round_elements_ = 1;
  uint64_t rounds_ = 1;
  uint64_t fetched_ = 0;  // rounds whose copies to the host have started
  std::array<std::vector<char>, kDepth> work_;
  std::vector<char> sent_;  // copy of a send buffer that messages of the peers overwrite
  std::array<Arena, kDepth> landed_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_BUFFERS_H_
