// SPDX-License-Identifier: Apache-2.0
// Rendezvous of a communicator's ranks in several processes of one host.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_RENDEZVOUS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_RENDEZVOUS_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/identity.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Result of a rendezvous on each rank: the peer info of all ranks, in rank order, and the rank's
// own descriptor of the segment that the serving process created.
struct Rendezvous {
  std::vector<PeerInfo> peer_infos;
  FileDescriptor segment;
};

// Creates the segment once all ranks have arrived. Called on the service thread of the serving
// process: must not block. A failure is returned to every rank.
using SegmentFactory = Status (*)(const std::vector<PeerInfo>& peer_infos,
                                  FileDescriptor* out_segment);

// Serves one rendezvous at a new random address, on this process's service thread, until all ranks
// have arrived, or an arrived rank has died and all ranks have been answered, or this process ends.
// Thread-safe.
Status serve_rendezvous(SegmentFactory factory, keel_unique_id* out_id);
// Like serve_rendezvous(), at the address that all processes of this user derive from |name|:
// rendezvous_id(). KEEL_ALREADY_EXISTS, naming the process, when a rendezvous |name| is being
// served.
Status serve_rendezvous_at(SegmentFactory factory, const std::string& name, keel_unique_id* out_id);
// Returns the id of the rendezvous |name|, whichever process serves it.
keel_unique_id rendezvous_id(const std::string& name);

// Joins rank |self.rank| of |world| to the rendezvous |id| and waits for the other ranks. The
// roster's pid is the kernel's, not |self.pid|. Unless stated otherwise, the other ranks keep
// waiting after a failure:
//  - KEEL_INVALID_ARGUMENT: |id| is malformed; rank, world (1 to kMaxWorld) or device name out of
//    bounds; |world| differs from the first rank's, the text names both;
//  - KEEL_ALREADY_EXISTS: the rank has already arrived;
//  - KEEL_TIMED_OUT at the deadline, naming the missing ranks; at most a second later when the
//    serving process does not answer. The rank may join again;
//  - KEEL_UNAVAILABLE: the rendezvous is no longer served (at a named address the rank waits for a
//    server until the deadline); or out of file descriptors;
//  - KEEL_RANK_FAILED, at once and on all ranks: an arrived rank, which is named, or the serving
//    process has ended;
//  - KEEL_PERMISSION_DENIED: another user's process serves the rendezvous;
//  - KEEL_UNSUPPORTED, at once and on all ranks: a rank, which is named, is in another pid
//    namespace than the serving process and cannot be watched by its pid;
//  - the factory's failure, on all ranks.
// Thread-safe.
Status attend_rendezvous(const keel_unique_id& id, const PeerInfo& self, uint32_t world,
                         const Deadline& deadline, Rendezvous* out_rendezvous);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_RENDEZVOUS_H_
