// SPDX-License-Identifier: Apache-2.0
// Collectives by lanes: inside each host through shared memory, between hosts rank by rank.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_LANES_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_LANES_H_

#include <cstdint>
#include <vector>

#include "collectives/hosts/host_executor.h"
#include "collectives/hosts/host_group.h"
#include "collectives/hosts/host_inside.h"
#include "collectives/hosts/host_scratch.h"
#include "collectives/hosts/lane_meter.h"
#include "collectives/runner.h"
#include "collectives/selection/selection.h"

namespace keel {

// Local rank i of every host forms lane i. A lane carries its share of the data between hosts, so
// each byte crosses once, and all ranks of a host share the load. Where hosts have more and
// fewer ranks, the smallest host decides how many lanes there are; ranks beyond have an empty
// share, and take part inside their host alone. A block of a rank, which no other rank can carry a
// share of, goes by the lane of its local rank modulo the number of lanes, in as many passes as the
// largest host needs. For one thread.
class HostLanes {
 public:
  // |inner|: the runner of the host's ranks; |selection|: their algorithms.
  HostLanes(RankContext& context, Runner& inner, const Selection& selection, HostGroup& group);

  // Whether |request| goes by lanes: the same on all ranks that make the same call.
  bool takes(const Request& request) const;
  // Whether the ranks of a lane run |request|'s collective itself, not its form with arrays.
  bool keeps_form(const Request& request) const;
  Status run(const Request& request, WireWait& wait);
  // Number of lanes; 0: none, as with one rank on every host.
  uint32_t size() const { return size_; }
  const LaneMeter& meter() const { return meter_; }
  HostExecutor& executor() { return executor_; }
  const HostExecutor& executor() const { return executor_; }
  // The communicator's rank behind rank |index| of the lane.
  uint32_t rank_of(uint32_t index) const { return lane_[index]; }

 private:
  // What becomes of some elements of an all_reduce, of this rank's share of them between the hosts.
  struct Part {
    Request scatter;
    Request between;
    Request gather;
  };
  Part part_of(const Request& request, uint64_t begin, uint64_t count) const;
  Status all_reduce(const Request& request, WireWait& wait);
  Status all_gather(const Request& request, WireWait& wait);
  // The ranks of the host gather the blocks of the ranks of |host| from those that have them: the
  // ranks of the lanes, or, with |from_owners|, the ranks of |host| themselves.
  Status gather_blocks(const Request& request, const std::vector<uint32_t>& host, bool from_owners,
                       WireWait& wait);
  Status reduce_scatter(const Request& request, WireWait& wait);
  // Of the elements |range| of each block, the sums of those blocks that |pass| carries.
  Status scatter_sums(const Request& request, const Piece& range, uint32_t pass,
                      WaitContext& inside_context, WireWait& wait);
  Status broadcast(const Request& request, WireWait& wait);
  Status barrier(const Request& request, WireWait& wait);
  // Runs |part| among the ranks of the host, or among those of the lane, if this rank has one.
  Status run_inside(Request& part, WaitContext& wait_context);
  // The last part of an operation, among the ranks of the host.
  Status gather_inside(Request& part, WireWait& wait);
  // The same while the lane's messages move on.
  Status run_beside(Request& part, WireWait& wait);
  // Starts |part|, a part of |whole|, among the ranks of the lane, or runs it there.
  Status start_between(const Request& whole, Request& part, const HostExecutor::Options& options,
                       WireWait& wait);
  Status run_between(const Request& whole, Request& part, uint64_t divisor, WireWait& wait);
  // The rank of |host| whose block goes by lane |local| in pass |pass|; NULL: there is none.
  const uint32_t* owner(const std::vector<uint32_t>& host, uint32_t local, uint32_t pass) const;
  // One share of |request|'s elements for each rank of this host.
  std::vector<Piece> shares(const Request& request) const;
  // The ranks exchange the rates of their lanes, and agree on new weights.
  Status agree_on_shares(WireWait& wait);

  RankContext& context_;
  HostInside inside_;
  HostGroup& group_;
  const uint32_t size_;               // number of lanes; 0: none
  const uint32_t passes_;             // blocks of the largest host by one lane
  const std::vector<uint32_t> lane_;  // empty: this rank has none
  HostExecutor executor_;
  LaneMeter meter_;
  HostScratch scratch_;  // the host's sums of the blocks of this rank's lane
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_LANES_H_
