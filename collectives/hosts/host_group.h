// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator that spans hosts, as seen by one of them.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_GROUP_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_GROUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/hosts/host_job.h"
#include "collectives/hosts/host_rules.h"
#include "collectives/hosts/lane_shares.h"
#include "collectives/selection/algorithm.h"
#include "collectives/team.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Properties of a communicator that its rank 0 decides.
struct HostAgreement {
  uint64_t chunk_bytes = 0;
  std::optional<Algorithm> algorithm;  // KEEL_ALGORITHM: used wherever it applies
  LaneShares lane_shares;              // KEEL_LANE_SHARES
  std::vector<Rule> rules;             // for several hosts, at most kMostHostRules

  // Text for HostTable, and back; KEEL_DATA_LOSS for malformed text.
  std::string write() const;
  static Status read(const std::string& text, HostAgreement* out_agreement);
};

// Ranks of one host share a control segment and are a team of their own: the inner group. Ranks are
// numbered in three ways: in the communicator, in the job (as the wires number them), and in the
// inner group. Immutable but for the wires.
class HostGroup {
 public:
  // Makes the group of |members|: the job's rank of each rank of the communicator. |context|:
  // number of the communicator in the job, the same on all ranks. The ranks of one host meet, and
  // the call waits for them until |deadline|.
  static Status make(std::shared_ptr<HostJob> job, std::vector<uint32_t> members, uint32_t rank,
                     uint64_t context, const std::vector<PeerInfo>& peer_infos,
                     const HostAgreement& agreement, const Deadline& deadline,
                     std::unique_ptr<HostGroup>* out_group);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t world() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t local_rank() const { return local_rank_; }
  const std::shared_ptr<Team>& team() const { return team_; }
  const HostAgreement& agreement() const { return agreement_; }
  // Ranks of each host, ascending; hosts in the order of their lowest ranks.
  const std::vector<std::vector<uint32_t>>& hosts() const { return hosts_; }
  uint32_t host() const { return host_; }  // index of this rank's host
  // Returns the local rank of |rank|; empty if |rank| is on another host.
  std::optional<uint32_t> find_local(uint32_t rank) const;
  // Whether all ranks are on one machine, which has fewer processors than the job has ranks there:
  // the hosts are containers. The same on all ranks.
  bool shares_processors() const { return shares_processors_; }
  // Number of ranks of every host; 0 if the hosts differ.
  uint32_t ranks_per_host() const;
  const std::vector<uint32_t>& members() const { return members_; }
  const std::vector<PeerInfo>& peer_infos() const { return peer_infos_; }
  HostJob& job() { return *job_; }
  const std::shared_ptr<HostJob>& shared_job() const { return job_; }
  uint64_t context() const { return context_; }
  WireSet& wires() { return *wires_; }

  // The same on all ranks, and unique among the communicators of the cluster.
  std::string id() const;
  // "rank 3 (cpu:0, process 4711 on host 'b')".
  std::string name(uint32_t rank) const;
  const std::string& host_name(uint32_t host) const;

  // Fails the communicator on all ranks of all hosts. Returns at once. Thread-safe.
  void abort(const Status& status);

 private:
  HostGroup() = default;
  Status meet_inside(const Deadline& deadline);

  std::shared_ptr<HostJob> job_;
  std::unique_ptr<WireSet> wires_;
  std::shared_ptr<Team> team_;
  std::vector<uint32_t> members_;
  std::vector<PeerInfo> peer_infos_;
  std::vector<std::vector<uint32_t>> hosts_;
  HostAgreement agreement_;
  uint64_t context_ = 0;
  uint32_t rank_ = 0;
  uint32_t host_ = 0;
  uint32_t local_rank_ = 0;
  bool shares_processors_ = false;
  uint64_t watch_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_GROUP_H_
