// SPDX-License-Identifier: Apache-2.0
// The rank of a host that sends the blocks of the host's ranks for a rank of another host.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_CARRIERS_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_CARRIERS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/hosts/host_group.h"

namespace keel {

// Local rank i modulo g, the carrier, sends the blocks of all g ranks of its host for rank i of
// another host. Immutable.
class HostCarriers {
 public:
  explicit HostCarriers(const HostGroup& group) : group_(group) {
    const std::vector<std::vector<uint32_t>>& hosts = group.hosts();
    const size_t size = hosts[group.host()].size();
    carried_.resize(size);
    for (uint32_t host = 0; host < hosts.size(); ++host) {
      may_aggregate_ = may_aggregate_ || (hosts[host].size() > 1 && hosts.size() > 1);
      if (host == group.host()) continue;
      for (size_t i = 0; i < hosts[host].size(); ++i) carried_[i % size].push_back(hosts[host][i]);
    }
    for (const std::vector<uint32_t>& ranks : carried_) {
      most_carried_ = std::max<uint64_t>(most_carried_, ranks.size());
    }
  }

  // The ranks of other hosts for which |local|, a rank of this host, sends the blocks: ascending by
  // host, then by local index.
  const std::vector<uint32_t>& carried_by(uint64_t local) const { return carried_[local]; }
  const std::vector<uint32_t>& carried() const { return carried_[group_.local_rank()]; }
  // The largest number of ranks that a rank of this host sends for.
  uint64_t most_carried() const { return most_carried_; }
  // The rank of another host |host| that sends to this rank.
  uint32_t carrier_of(uint32_t host) const {
    const std::vector<uint32_t>& ranks = group_.hosts()[host];
    return ranks[group_.local_rank() % ranks.size()];
  }
  // Whether a host has several ranks; the same on all ranks.
  bool may_aggregate() const { return may_aggregate_; }

 private:
  const HostGroup& group_;
  std::vector<std::vector<uint32_t>> carried_;  // by each local rank
  uint64_t most_carried_ = 0;
  bool may_aggregate_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_CARRIERS_H_
