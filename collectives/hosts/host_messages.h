// SPDX-License-Identifier: Apache-2.0
// Sends and receives between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_MESSAGES_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_MESSAGES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "collectives/bridge/staging_pipeline.h"
#include "collectives/hosts/host_group.h"
#include "collectives/hosts/wire_wait.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// The transfers of a group progress together. Each is cut into chunks of the agreed size, two of
// which are in flight. Transfers to one peer, and from one peer, match in the order of the calls.
// For one thread.
class HostMessages {
 public:
  // Lane of the wires; collectives use the others.
  static constexpr uint32_t kLane = WireSet::kLanes - 1;

  HostMessages(RankContext& context, HostGroup& group) : context_(context), group_(group) {}

  // Posts the first chunks of |transfers|, all to other hosts. |transfers| stays valid until
  // finish() has returned.
  Status start(const std::vector<const Transfer*>& transfers, WireWait& wait);
  // Posts the chunks that may follow what the wires have moved. Optional before finish(). Waits for
  // no peer, but for the copies between device and host of the chunks that it posts.
  Status advance(WireWait& wait);
  bool is_over() const;
  // Blocks until all transfers are complete. After a failure the caller fails the wires and calls
  // settle(). KEEL_INVALID_ARGUMENT: the two halves of a transfer do not match.
  Status finish(WireWait& wait);
  // Requires failed wires. Waits until neither wires nor copies touch the caller's memory.
  void settle();
  // The ranks that finish() still waited for when it failed.
  std::vector<uint32_t> awaited() const;

 private:
  static constexpr uint32_t kInFlight = 2;
  struct Moving {
    const Transfer* transfer = nullptr;
    Side side;
    std::unique_ptr<StagingPipeline> stage;
    uint64_t chunks = 1;
    uint64_t fetched = 0;  // staged and sent: chunks whose copy to the host has started
    uint64_t posted = 0;
    uint64_t done = 0;
    std::array<WireRequest, kInFlight> requests;

    bool is_over() const { return done == chunks; }
    bool is_in_flight() const { return posted != done; }
  };

  Status begin(const Transfer& transfer, Moving* out_moving);
  // Advances as far as possible without blocking on wires; blocks on device copies. |may_post|: all
  // earlier transfers of the same peer and direction are posted.
  Status advance(Moving& moving, bool may_post, WireWait& wait);
  Status post(Moving& moving, WireWait& wait);
  Status complete(Moving& moving);
  uint64_t chunk_size(const Moving& moving, uint64_t chunk) const;
  char* chunk_data(const Moving& moving, uint64_t chunk) const;

  RankContext& context_;
  HostGroup& group_;
  std::deque<Moving> moving_;
  std::vector<std::unique_ptr<StagingPipeline>> stages_;  // kept for later transfers
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_MESSAGES_H_
