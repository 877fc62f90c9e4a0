// SPDX-License-Identifier: Apache-2.0
// What one rank of a communicator has of islands, and how its operations go through them.
#ifndef KEEL_COLLECTIVES_ISLANDS_ISLANDS_H_
#define KEEL_COLLECTIVES_ISLANDS_ISLANDS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/bridge/stage.h"
#include "collectives/flight/flight_format.h"
#include "collectives/islands/island.h"
#include "collectives/islands/island_plan.h"
#include "collectives/rank_context.h"
#include "collectives/split.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

class Runner;

// For the one thread that runs the rank's operations, but for what says otherwise.
class Islands {
 public:
  // Whether the ranks of |team| have to look for islands: two of them offer a library. The same
  // on all.
  static bool may_form(const Team& team);
  // What is known of |team| before its ranks have told each other of their libraries.
  static IslandPlan plan_without(const Team& team);
  // Every rank of a communicator calls, if may_form(), before all else that it does there.
  // |forbid_alias|: as the communicator has it. |inherited|: what split() has made for it; none,
  // else.
  static Status form(RankContext& context, const Ref<Device>& device, bool forbid_alias,
                     std::unique_ptr<Island> inherited, Patience& patience,
                     std::unique_ptr<Islands>* out_islands);
  // Every rank calls, with the same |parts|, within the split that has made them, of which
  // |so_far| is its own part. Has the library part the rank's island as they do: |*out_island| is
  // the rank's of its part, where that has one whose ranks are all of one island here, and the
  // library can. |timeout_ns|, |is_urgent|: of the part.
  Status split(const Ref<Device>& device, const std::vector<Part>& parts, const Status& so_far,
               int64_t timeout_ns, Patience& patience, std::unique_ptr<Island>* out_island);
  ~Islands();
  Islands(const Islands&) = delete;
  Islands& operator=(const Islands&) = delete;

  // From any thread.
  const std::shared_ptr<const IslandPlan>& plan() const { return plan_; }

  // Whether |request|, which is for run() then, goes through the library: the same on all ranks
  // that have called the same. From any thread.
  bool takes(const Request& request) const {
    return plan_->takes(request, plan_->is_one() || request.algorithm == Algorithm::kEager);
  }
  // All ranks have called |request|. Blocks until it is done on all, or has failed.
  Status run(const Request& request, Patience& patience);

  // From any thread: operations that the library had a part in, and what the lanes staged.
  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
  Stage::Traffic staged() const;
  uint64_t in_place() const;
  uint64_t gave_way() const;
  // Of the rank's lane; NULL where it has none.
  const LastExchange* last_exchange() const;

 private:
  struct Lane;
  // A part of |count| elements.
  struct Share {
    uint64_t offset = 0;
    uint64_t count = 0;
  };

  Islands(RankContext& context, std::shared_ptr<const IslandPlan> plan);
  Status enter_lane(const Ref<Device>& device, bool forbid_alias, Patience& patience);
  Status run_whole(const Request& request, Patience& patience);
  // What only moves pieces: a send or a receive for each, in one group.
  Status run_by_messages(const Request& request, Patience& patience);
  Status run_all_reduce(const Request& request, Patience& patience);
  Status run_broadcast(const Request& request, Patience& patience);
  // Of islands of one size, so that each rank's lane is that of its own piece.
  Status run_all_gather(const Request& request, Patience& patience);
  Status run_reduce_scatter(const Request& request, Patience& patience);
  void add_piece(const Request& request, keel_collective collective, const Piece& piece,
                 uint32_t peer, const void* buffer);
  // Makes |copies_| and has the library run |calls_|, the next part of |request|.
  Status run_native(const Request& request, Patience& patience);
  Status run_lane(const Request& request, Patience& patience);
  Share share_of(uint32_t lane, uint64_t count) const;
  void add_call(const Request& request, keel_collective collective, const Share& share,
                uint32_t root, const void* send, void* receive);
  // Each lane's rank hands its share of the receive buffer to the others of the island.
  void add_shares_out(const Request& request);

  RankContext& context_;
  const std::shared_ptr<const IslandPlan> plan_;
  const uint32_t size_;             // of the rank's island
  const uint32_t index_;            // in it
  std::unique_ptr<Island> island_;  // none: the rank is alone in its island
  std::unique_ptr<Lane> lane_;      // none: one island, or the rank is in no lane
  std::vector<Island::Copy> copies_;
  std::vector<keel_ccl_call> calls_;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ISLANDS_ISLANDS_H_
