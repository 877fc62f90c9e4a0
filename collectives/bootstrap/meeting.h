// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator, in several processes of one host, find each other.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_MEETING_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_MEETING_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/file_descriptor.h"
#include "collectives/bootstrap/identity.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// What every rank leaves with: all ranks, in order, and a descriptor of its own of what the
// process that served the meeting has made for them.
struct Meeting {
  std::vector<Attendee> attendees;
  FileDescriptor segment;
};

// Called once all ranks have come, on the service thread of the process that serves: it must
// not wait. Its failure is every rank's.
using SegmentFactory = Status (*)(const std::vector<Attendee>& attendees,
                                  FileDescriptor* out_segment);

// This process serves one meeting at a new place, in its service thread, until all ranks have
// come, or one that had come has died and all have been told, or this process ends. Thread-safe.
Status serve_meeting(SegmentFactory factory, keel_unique_id* out_id);
// The same at a place that all processes of this user find by |name|: meeting_id().
// KEEL_ALREADY_EXISTS, with the process, when a meeting of that name is served.
Status serve_meeting_at(SegmentFactory factory, const std::string& name, keel_unique_id* out_id);
// The id of the meeting |name|, whoever serves it.
keel_unique_id meeting_id(const std::string& name);

// Rank |self.rank| of |world| comes to the meeting |id| and waits for the others. The pid in the
// roster is the one that the kernel knows, not |self.pid|. Failures, each of which leaves the
// other ranks waiting unless it says otherwise:
//  - KEEL_INVALID_ARGUMENT: |id| is none; rank, world (1 to kMaxWorld) or device's name out of
//    bounds; |world| is not what the first rank said, both are named;
//  - KEEL_ALREADY_EXISTS: the rank is there already;
//  - KEEL_TIMED_OUT at the deadline, naming the ranks that are missing; a second later at most
//    when the process that serves does not answer. The rank may come again;
//  - KEEL_UNAVAILABLE: nobody serves the meeting any more (one that has a name is waited for
//    until the deadline); or no more files may be opened;
//  - KEEL_RANK_FAILED, at once and for all ranks: a rank that had come, which is named, or the
//    process that serves, has ended;
//  - KEEL_PERMISSION_DENIED: another user's process serves the meeting;
//  - KEEL_UNSUPPORTED, at once and for all ranks: a rank, which is named, is in another pid
//    namespace than the process that serves, and cannot be watched by its pid;
//  - whatever the factory returned, for all ranks.
// Thread-safe.
Status attend_meeting(const keel_unique_id& id, const Attendee& self, uint32_t world,
                      const Deadline& deadline, Meeting* out_meeting);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_MEETING_H_
