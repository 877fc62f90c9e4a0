// SPDX-License-Identifier: Apache-2.0
// One rank's way from a failed job to the job of the ranks that are left.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_SHRINK_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_SHRINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/hosts/host_job.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// The ranks of a failed communicator meet in a new job. If a rank fails before the new group is
// final, the ranks meet in one more job, and so on. Level 0 is the job of the failed communicator;
// a rank that has joined a job of level k keeps all jobs below open.
//
//   level 0 --join--> level 1 --join--> level 2 ... --finish--> final
//      ^                 |
//      +---- go back ----+   a member of level 1 is alive, and takes part in level 0 only
//
// The server of level k may end while it distributes the table: some members then have level k,
// the others take part in level k - 1 only. Two rules keep the survivors together.
//  1. A rank counts a member of its level as ended only if the member's port of this level is
//     closed, and the member takes part in no level below. A member that does makes the rank go
//     back there. The answer comes from a thread of the member's process: an ending process, whose
//     ports close one after the other, cannot give the answer.
//  2. A rank marks all levels below as finished before its group's port can close. A member that
//     takes part in a lower level alone has therefore never joined the level, or has gone back from
//     it, so that no rank can have a final group there, which takes every member's agreement.
// The state outlives a call that fails: another call goes on from the same level.
//
// After: Skeen, "Nonblocking commit protocols" (1981): no state in which a survivor can have
// committed is next to a state in which another survivor can still abort.
class HostShrink {
 public:
  // |members|: ranks in |job| of the ranks of the communicator |context|.
  HostShrink(std::shared_ptr<HostJob> job, uint64_t context, std::vector<uint32_t> members);
  // Leaves all levels: the ranks that are left go on without this one.
  ~HostShrink();
  HostShrink(const HostShrink&) = delete;
  HostShrink& operator=(const HostShrink&) = delete;

  // Agrees on the ranks that are left: HostSession::regroup() in the job of the right level.
  // |absent_ns|: as in RegroupRequest.
  Status agree(int64_t absent_ns, const Deadline& deadline);
  // Joins the job of the ranks that agree() found. |self|: this rank; its number is set. |facts|:
  // as in HostSession::join(). After a failure, agree() finds out with whom to go on.
  Status join(PeerInfo self, const std::string& facts, const Deadline& deadline);
  // The job that join() joined, and the number of each of its ranks in the failed communicator.
  const std::shared_ptr<HostJob>& job() const { return levels_.back().job; }
  const std::vector<uint32_t>& old_ranks() const { return levels_.back().old_ranks; }
  // Call when the group of job() is final: leaves all levels but the one that the caller holds.
  void finish();
  bool is_finished() const { return is_finished_; }
  // This rank in the failed communicator's job.
  const PeerInfo& self() const;

 private:
  struct Level {
    std::shared_ptr<HostJob> job;
    uint64_t context = 0;
    std::vector<uint32_t> members;    // ranks of the job
    std::vector<uint32_t> old_ranks;  // of |members|, in the failed communicator
    bool had_failed = false;          // has_failed() when this rank joined the next level
  };

  // Whether a server of |level| took this rank for failed.
  static bool has_failed(const Level& level);

  // The highest level below the top in which |member|, a rank of the top, takes part; none if
  // |member| has ended.
  Status find_below(uint32_t member, const Deadline& deadline,
                    std::optional<size_t>* out_level) const;
  void mark_finished(const Status& refusal);

  std::vector<Level> levels_;
  HostSession::RegroupPlace place_;  // of agree()
  bool is_finished_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_SHRINK_H_
