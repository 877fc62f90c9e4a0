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
  // The three operations on some elements of an all_reduce; the one between the hosts takes this
  // rank's share of them.
  struct Part {
    Request scatter;
    Request between;
    Request gather;
  };
  Part part_of(const Request& request, uint64_t begin, uint64_t count) const;
  Status all_reduce(const Request& request, WireWait& wait);
  Status all_gather(const Request& request, WireWait& wait);
  // The elements |range| of each block that |pass| of an all_gather carries.
  struct Blocks {
    Piece range;
    uint64_t pass = 0;
    Request between;

    // Those of |rank|'s block, in the result; none for NULL.
    Piece of(const uint32_t* rank) const;
  };
  // Makes |blocks|'s operation between the hosts. |is_own_new|: this rank's block is in its send
  // buffer alone.
  void prepare_gather(Blocks* blocks, bool is_own_new);
  Status gather_own_host(const Request& request, bool is_long, WireWait& wait);
  // The ranks of this host gather those of the others from the ranks of the lanes.
  Status gather_blocks(const Request& request, const Blocks& blocks, bool is_beside,
                       WireWait& wait);
  Status reduce_scatter(const Request& request, WireWait& wait);
  // The elements |range| of each block that |pass| of a reduce_scatter carries, and their sums.
  struct Sums {
    Piece range;
    uint64_t pass = 0;
    char* memory = nullptr;       // the host's sums of the blocks of this rank's lane, by host
    char* handed_over = nullptr;  // behind them: the result for a rank without a lane
    Request between;
  };
  // The elements in |sums| of the block of |rank|; none for NULL.
  Piece piece_of(const Request& request, const Sums& sums, const uint32_t* rank) const;
  // Where this rank's result goes.
  void* result_of(const Request& request, const Sums& sums) const;
  Status sum_inside(const Request& request, bool is_first, Sums* sums, WireWait& wait);
  Status hand_over(const Request& request, const Sums& sums, WireWait& wait);
  Status broadcast(const Request& request, WireWait& wait);
  Status barrier(const Request& request, WireWait& wait);
  // Runs |parts| parts of an operation, two in flight: while one is between the hosts, the next is
  // prepared and the one before concluded. prepare(index, InFlight*), start(index, InFlight*),
  // which sends the part between the hosts, and conclude(InFlight&, is_last) return a Status.
  template <typename InFlight, typename Prepare, typename Start, typename Conclude>
  Status overlap(uint64_t parts, WireWait& wait, Prepare prepare, Start start, Conclude conclude);
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
  const uint32_t* owner(const std::vector<uint32_t>& host, uint32_t local, uint64_t pass) const;
  // Elements that go between the hosts at once of blocks of |longest| or fewer.
  uint64_t round_of(const Request& request, uint64_t longest) const;
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
