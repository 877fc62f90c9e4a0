// SPDX-License-Identifier: Apache-2.0
// Rendezvous of a communicator's ranks through a key-value store of the caller's.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_STORE_RENDEZVOUS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_STORE_RENDEZVOUS_H_

#include <keel/keel.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/bootstrap/caller_store.h"
#include "collectives/bootstrap/rendezvous.h"
#include "collectives/bootstrap/store_messages.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Result on each rank: |rendezvous| if all ranks share memory, else |hosts|, the id of a rendezvous
// between hosts that all of them join.
struct StoreRendezvousResult {
  bool spans_hosts = false;
  keel_unique_id hosts = {};
  Rendezvous rendezvous;
};

// One rank. Keys, below the caller's prefix:
//   rank/R    rank R has come: StoreArrival
//   roster    all have come: StoreRoster, by rank 0
//   report/R  rank R has the segment: StoreReport, by all ranks but 0
//   failed    why the rendezvous has failed: StoreReport, by any rank
// A store's set and get suffice. A random ticket in each arrival, repeated in the roster, shows a
// rank that another process came in its place, or that the keys are those of an earlier rendezvous.
// Each rank reads |failed| between two questions to the store; once ranks have the segment, rank 0
// writes the failure there too.
class StoreRendezvous {
 public:
  // Serves a rendezvous between hosts, on rank 0.
  using ServeHosts = std::function<Status(keel_unique_id* out_id)>;

  StoreRendezvous(const CallerStore& store, uint32_t rank, uint32_t world,
                  const Deadline& deadline);

  // Meets the other ranks as |self|. |factory|: makes the segment, on rank 0. Failures name this
  // rank and are those of keel_comm_init_store.
  Status meet(const PeerInfo& self, SegmentFactory factory, const ServeHosts& serve_hosts,
              StoreRendezvousResult* out_result);
  // In place of meet(), or after it: the others fail with |why| and this rank's number.
  void refuse(const Status& why) const;

 private:
  using Look = std::function<Status()>;

  Status arrive(const PeerInfo& self);
  // Rank 0's part of meet().
  Status lead(SegmentFactory factory, const ServeHosts& serve_hosts,
              StoreRendezvousResult* out_result);
  Status collect(std::vector<StoreArrival>* out_arrivals) const;
  Status check_own_key() const;
  Status lead_hosts(const std::vector<StoreArrival>& arrivals, const ServeHosts& serve_hosts,
                    StoreRoster* roster, StoreRendezvousResult* out_result) const;
  Status lead_inside(SegmentFactory factory, StoreRoster* roster, StoreRendezvousResult* out_result,
                     const Look& look) const;
  Status await_reports(const StoreRoster& roster, const Look& look) const;
  // "ranks 1, 3 of 4 have"; empty if all have a value KEY/RANK.
  std::string absent_ranks(const char* key) const;
  Status late() const;
  // The other ranks' part of meet().
  Status follow(StoreRendezvousResult* out_result) const;
  Status enter(const StoreRoster& roster, StoreRendezvousResult* out_result) const;

  Status read_arrival(uint32_t rank, const Deadline& deadline, const Look& look,
                      StoreArrival* out_arrival) const;
  Status already_there(const PeerInfo& other) const;
  // The failure that a rank has reported.
  Status check_failed() const;
  // KEEL_RANK_FAILED if the process of |arrival| is known to have ended.
  Status check_alive(const StoreArrival& arrival) const;
  // Makes the processes of |roster| whose sockets this process does not see reachable.
  void note_peers(const StoreRoster& roster) const;

  const CallerStore store_;
  const uint32_t rank_;
  const uint32_t world_;
  const Deadline deadline_;
  StoreArrival own_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_STORE_RENDEZVOUS_H_
