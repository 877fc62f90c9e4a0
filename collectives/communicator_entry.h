// SPDX-License-Identifier: Apache-2.0
// Ways of one rank into a new communicator: by an id, a launcher, or a store.
#ifndef KEEL_COLLECTIVES_COMMUNICATOR_ENTRY_H_
#define KEEL_COLLECTIVES_COMMUNICATOR_ENTRY_H_

#include <keel/keel.h>

#include <cstdint>

#include "collectives/bootstrap/caller_store.h"
#include "collectives/bootstrap/identity.h"
#include "collectives/communicator.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

// An entering rank, with the caller's options.
struct NewRank {
  Ref<Device> device;
  uint32_t rank = 0;
  uint32_t world = 0;
  CommunicatorOptions options;

  // The rank's description for the peers.
  PeerInfo introduce() const;
  // Same, for peers in remote processes: with the start time of this process. The process listens
  // from now on, since remote processes hold connections to this one.
  Status introduce_to_processes(PeerInfo* out_self) const;
};

// All functions block until the ranks have met, or until the deadline of the options.

// Implements keel_comm_init_rank, for an id of one host or of several.
Status join_by_id(const NewRank& self, const keel_unique_id& id,
                  Ref<Communicator>* out_communicator);
// Implements keel_comm_init_env; rank and world are the launcher's.
Status join_launched(NewRank self, Ref<Communicator>* out_communicator);
// Implements keel_comm_init_store.
Status join_by_store(const NewRank& self, const CallerStore& store,
                     Ref<Communicator>* out_communicator);
// Enters the communicator of |rendezvous|, a completed rendezvous of processes of this host.
Status enter_met(const NewRank& self, const Rendezvous& rendezvous, const Deadline& deadline,
                 Ref<Communicator>* out_communicator);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_COMMUNICATOR_ENTRY_H_
