// SPDX-License-Identifier: Apache-2.0
// all_to_all and all_to_all_v between hosts: shared memory inside a host, messages between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_ALL_TO_ALL_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_ALL_TO_ALL_H_

#include <cstdint>
#include <vector>

#include "collectives/hosts/carried_blocks.h"
#include "collectives/hosts/host_carriers.h"
#include "collectives/hosts/host_executor.h"
#include "collectives/hosts/host_group.h"
#include "collectives/hosts/host_inside.h"
#include "collectives/hosts/host_scratch.h"
#include "collectives/runner.h"
#include "collectives/selection/selection.h"

namespace keel {

// Each byte for another host crosses the network once, and no byte for a rank of the own host does.
// Two algorithms, with g ranks on the sending host and h on the receiving host:
//
//   direct      g * h messages from host to host: each rank sends its block to each remote rank
//   aggregated  h messages: the ranks of a host hand the blocks for remote rank i of a host to
//               local rank i modulo g, the carrier, which sends the blocks in one message
//
// Aggregation saves messages and connections, and copies each block twice more. In an all_to_all_v,
// whose blocks differ in size, `aggregated` carries the short blocks and sends the long ones as
// `direct` does. For one thread.
class HostAllToAll {
 public:
  // |inner|: the runner of the host's ranks; |selection|: their algorithms; |flat|: among all
  // ranks.
  HostAllToAll(RankContext& context, Runner& inner, const Selection& selection, HostGroup& group,
               HostExecutor& flat);
  HostAllToAll(const HostAllToAll&) = delete;
  HostAllToAll& operator=(const HostAllToAll&) = delete;

  // Whether a host has several ranks; the same on all ranks.
  bool may_aggregate() const { return carriers_.may_aggregate(); }
  // Whether |request| belongs here, by Algorithm::kDirect or kAggregated.
  static bool takes(const Request& request) {
    return (request.collective == KEEL_ALL_TO_ALL || request.collective == KEEL_ALL_TO_ALL_V) &&
           !is_stepped(request.algorithm);
  }
  // |may_carry|: for an aggregated all_to_all_v.
  Status run(const Request& request, const MayCarry& may_carry, WireWait& wait);
  // Whether the last operation passed through bounce buffers of this object.
  bool is_staged() const { return is_staged_; }
  // Requires failed wires. Waits until neither wires nor copies touch the caller's memory.
  void settle();
  // HostExecutor has the same two for its operations; these are for carried blocks.
  std::vector<uint32_t> awaited() const { return carried_.awaited(); }
  const std::vector<HostExecutor::Call>& calls() const { return carried_.calls(); }

 private:
  Status run_direct(const Request& request, WireWait& wait);
  Status run_carried(const Request& request, const MayCarry& may_carry, WireWait& wait);
  // Divides |request| into an all_to_all_v among the ranks of the host and one among all ranks.
  void divide(const Request& request, Request* out_inside, Request* out_between) const;
  Status exchange_direct(Request& inside, WireWait& wait);
  Status run_aggregated(const Request& request, WireWait& wait);
  // Moves |count| elements of each block, starting at |begin| of the block.
  Status run_round(const Request& request, const Side& send, const Side& receive, uint64_t begin,
                   uint64_t count, WireWait& wait);
  Status exchange_inside(const Request& request, uint64_t count, WireWait& wait);
  Status exchange_between(const Request& request, uint64_t count, WireWait& wait);
  Status run_inside(Request& part, WireWait& wait);
  // In place, the runner would allocate memory for each operation: sends from scratch instead.
  Status copy_local(Request* in_out_inside);

  const std::vector<uint32_t>& local() const { return group_.hosts()[group_.host()]; }
  uint64_t local_size() const { return local().size(); }
  // Blocks from one local rank to another: the receiver's own block, and the blocks that the
  // receiver carries, filled up to the largest number, so that all ranks of a host move equally
  // much.
  uint64_t stride() const { return carriers_.most_carried() + 1; }
  // Blocks from the start of the scratch.
  uint64_t packed_at() const { return 0; }
  uint64_t collected_at() const { return local_size() * stride(); }
  uint64_t outgoing_at() const { return 2 * collected_at(); }
  uint64_t incoming_at() const { return outgoing_at() + local_size() * carriers_.most_carried(); }
  uint64_t scratch_blocks() const { return incoming_at() + group_.world(); }

  RankContext& context_;
  HostGroup& group_;
  HostExecutor& flat_;
  HostInside inside_;
  const HostCarriers carriers_;
  HostScratch scratch_;
  CarriedBlocks carried_;
  bool is_staged_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_ALL_TO_ALL_H_
