// SPDX-License-Identifier: Apache-2.0
// Values that ranks leave in a caller's store.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_STORE_MESSAGES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_STORE_MESSAGES_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/proc_peers.h"
#include "core/status.h"

namespace keel {

// Parsers trust the sizes and numbers in a value as little as those in a message (messages.h).

// Where a process is, for what it can share with others.
struct ProcessPlace {
  std::string host;  // KEEL_HOST_ID, or empty
  std::string boot;  // boot id of the kernel
  uint64_t pid_namespace = 0;
  uint64_t net_namespace = 0;
  bool operator==(const ProcessPlace&) const = default;

  // Whether processes of the two places may share memory and watch each other.
  bool shares_memory(const ProcessPlace& other) const {
    return host == other.host && boot == other.boot && pid_namespace == other.pid_namespace;
  }
  // Whether the two places have one loopback interface.
  bool shares_network(const ProcessPlace& other) const {
    return boot == other.boot && net_namespace == other.net_namespace;
  }
};

// One rank that has come.
struct StoreArrival {
  ProcessToken ticket;  // random, of this call
  uint32_t world = 0;
  PeerInfo self;
  ProcessPlace place;
  Lifeline lifeline;
};
inline constexpr uint64_t kMaxStoreArrival = 2048;
Bytes write_store_arrival(const StoreArrival& arrival);
Status parse_store_arrival(ByteView bytes, StoreArrival* out_arrival);

// Rank 0's list of all ranks, and where they go on.
struct StoreRoster {
  std::string id;    // of the rendezvous between hosts; empty: all ranks share memory
  ObjectId segment;  // published by rank 0's process
  struct Rank {
    ProcessToken ticket;
    PeerInfo peer;
    uint64_t net_namespace = 0;
    Lifeline lifeline;
  };
  std::vector<Rank> ranks;
};
inline constexpr uint64_t max_store_roster(uint32_t world) {
  return 1024 + uint64_t{world} * 256;
}
Bytes write_store_roster(const StoreRoster& roster);
Status parse_store_roster(ByteView bytes, StoreRoster* out_roster);

// Whether the rank of |ticket| has the segment; or why a rank, which is named, ends the rendezvous.
struct StoreReport {
  ProcessToken ticket;
  Status result;
};
inline constexpr uint64_t kMaxStoreReport = 1024;
Bytes write_store_report(const StoreReport& report);
Status parse_store_report(ByteView bytes, StoreReport* out_report);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_STORE_MESSAGES_H_
