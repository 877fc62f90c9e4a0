// SPDX-License-Identifier: Apache-2.0
// The islands of a communicator as seen by one rank, and the execution of operations through them.
#ifndef KEEL_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_
#define KEEL_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/bridge/staging_pipeline.h"
#include "collectives/flight/flight_format.h"
#include "collectives/hierarchical/hierarchical_plan.h"
#include "collectives/hierarchical/native_group.h"
#include "collectives/rank_context.h"
#include "collectives/split.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

class Runner;

// Used by the thread that runs the rank's operations, except where noted.
class Hierarchical {
 public:
  // Whether the ranks of |team| may form islands: at least two ranks offer a library. The same on
  // all ranks.
  static bool may_form(const Team& team);
  // The plan of |team| before its ranks have exchanged their offers.
  static HierarchicalPlan plan_without(const Team& team);
  // Forms the islands. Every rank of a communicator calls, if may_form(), before any operation
  // there. |forbid_alias|: as for the communicator. |inherited|: the island that split() made for
  // this communicator, or null.
  static Status form(RankContext& context, const Ref<Device>& device, bool forbid_alias,
                     std::unique_ptr<NativeGroup> inherited, WaitContext& wait_context,
                     std::unique_ptr<Hierarchical>* out_hierarchical);
  // Splits the rank's island along with a split of the communicator. Every rank calls with the same
  // |parts|, during the split that made |parts|; |so_far| is this rank's status of that split.
  // |*out_group| is this rank's island in its part; empty if the library cannot split, or if that
  // island would join ranks of several present islands. |timeout_ns|: of the part.
  Status split(const Ref<Device>& device, const std::vector<Part>& parts, const Status& so_far,
               int64_t timeout_ns, WaitContext& wait_context,
               std::unique_ptr<NativeGroup>* out_group);
  ~Hierarchical();
  Hierarchical(const Hierarchical&) = delete;
  Hierarchical& operator=(const Hierarchical&) = delete;

  // Thread-safe.
  const std::shared_ptr<const HierarchicalPlan>& plan() const { return plan_; }

  // Whether |request| uses the library and must go through run(). The same on all ranks that called
  // the same operation. Thread-safe.
  bool takes(const Request& request) const {
    return plan_->takes(request, plan_->is_one() || request.algorithm == Algorithm::kEager);
  }
  // Runs |request|, which all ranks have called. Blocks until it has finished on all ranks or has
  // failed.
  Status run(const Request& request, WaitContext& wait_context);

  // Thread-safe. operations() counts operations that used the library; staged(), in_place() and
  // preempted() report the lane's staged bytes, bytes accessed in place, and preemptions.
  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
  StagingPipeline::Traffic staged() const;
  uint64_t in_place() const;
  uint64_t preempted() const;
  // Statistics of the rank's lane; NULL if the rank has no lane.
  const LastOperation* last_operation() const;

 private:
  struct Lane;
  // A part of a buffer, in elements.
  struct Share {
    uint64_t offset = 0;
    uint64_t count = 0;
  };

  Hierarchical(RankContext& context, std::shared_ptr<const HierarchicalPlan> plan);
  Status enter_lane(const Ref<Device>& device, bool forbid_alias, WaitContext& wait_context);
  Status run_whole(const Request& request, WaitContext& wait_context);
  // Runs a collective that only moves pieces as one group with a send and a receive for each peer.
  Status run_by_messages(const Request& request, WaitContext& wait_context);
  Status run_all_reduce(const Request& request, WaitContext& wait_context);
  Status run_broadcast(const Request& request, WaitContext& wait_context);
  // Require islands of one size, so that each rank's lane carries its own piece.
  Status run_all_gather(const Request& request, WaitContext& wait_context);
  Status run_reduce_scatter(const Request& request, WaitContext& wait_context);
  void add_piece(const Request& request, keel_collective collective, const Piece& piece,
                 uint32_t peer, const void* buffer);
  // Runs |copies_| and |calls_|, the next part of |request|, in the library.
  Status run_native(const Request& request, WaitContext& wait_context);
  Status run_lane(const Request& request, WaitContext& wait_context);
  Share share_of(uint32_t lane, uint64_t count) const;
  void add_call(const Request& request, keel_collective collective, const Share& share,
                uint32_t root, const void* send, void* receive);
  // Adds the broadcasts with which each lane's rank distributes its share of the receive buffer to
  // its island.
  void add_shares_out(const Request& request);

  RankContext& context_;
  const std::shared_ptr<const HierarchicalPlan> plan_;
  const uint32_t size_;                  // of the rank's island
  const uint32_t index_;                 // of this rank in its island
  std::unique_ptr<NativeGroup> island_;  // null if the rank is alone in its island
  std::unique_ptr<Lane> lane_;           // null with a single island, or if the rank has no lane
  std::vector<NativeGroup::Copy> copies_;
  std::vector<keel_ccl_call> calls_;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_H_
