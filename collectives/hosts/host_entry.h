// SPDX-License-Identifier: Apache-2.0
// Entry of a rank into a job that may span hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_ENTRY_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_ENTRY_H_

#include <keel/keel.h>

#include <memory>
#include <string>

#include "collectives/hosts/host_group.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Where a launcher's ranks meet.
struct HostRendezvous {
  HostServerAddress address;
  std::string name;
};

// Joins rank |self.rank| of |world| to the job of |id|, or of |rendezvous| if that is not NULL, and
// meets the ranks of the own host. |own|: properties of the communicator, if this is rank 0.
// Failures as those of HostSession::join() and attend_rendezvous().
Status enter_hosts(const keel_unique_id& id, const HostRendezvous* rendezvous, const PeerInfo& self,
                   uint32_t world, const HostAgreement& own, const Deadline& deadline,
                   std::unique_ptr<HostGroup>* out_group);

// Same, for a |job| that this rank has joined. A failure aborts the job.
Status enter_job(const std::shared_ptr<HostJob>& job, const Deadline& deadline,
                 std::unique_ptr<HostGroup>* out_group);

// Returns whether a unique id that this process creates is for other hosts too: KEEL_INTERFACE is
// set, or a launcher has started ranks on several hosts. |*out_address|: where to serve such an id.
bool is_id_for_hosts(HostServerAddress* out_address);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_ENTRY_H_
