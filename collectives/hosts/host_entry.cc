// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_entry.h"

#include <numeric>
#include <utility>
#include <vector>

#include "collectives/bootstrap/host_interfaces.h"
#include "collectives/bootstrap/launcher_environment.h"

namespace keel {

Status enter_hosts(const keel_unique_id& id, const HostRendezvous* rendezvous, const PeerInfo& self,
                   uint32_t world, const HostAgreement& own, const Deadline& deadline,
                   std::unique_ptr<HostGroup>* out_group) {
  std::unique_ptr<HostSession> session;
  const std::string facts = own.write();
  KEEL_RETURN_IF_ERROR(rendezvous == nullptr
                           ? HostSession::join(id, self, world, facts, deadline, &session)
                           : HostSession::join_at(rendezvous->address, rendezvous->name, self,
                                                  world, facts, deadline, &session));
  return enter_job(std::make_shared<HostJob>(std::move(session)), deadline, out_group);
}

Status enter_job(const std::shared_ptr<HostJob>& job, const Deadline& deadline,
                 std::unique_ptr<HostGroup>* out_group) {
  const HostTable& table = job->table();
  const uint32_t rank = job->session().rank();
  HostAgreement agreement;
  KEEL_RETURN_IF_ERROR(HostAgreement::read(table.ranks[0].facts, &agreement));
  std::vector<uint32_t> members(table.ranks.size());
  std::iota(members.begin(), members.end(), 0u);
  std::vector<PeerInfo> peer_infos;
  for (const HostRank& each : table.ranks) peer_infos.push_back(each.peer);
  const Status made = HostGroup::make(job, std::move(members), rank, /*context=*/0, peer_infos,
                                      agreement, deadline, out_group);
  if (made.ok()) return {};
  // The other ranks have met this one, and would wait.
  job->session().abort(failure(KEEL_RANK_FAILED, "{}: {}", table.ranks[rank].name(), made.text()));
  return made;
}

bool is_id_for_hosts(HostServerAddress* out_address) {
  *out_address = {};
  const std::string chosen = interface_setting();
  if (!named_interfaces(chosen).empty()) return true;
  // Without a launcher, or with a launcher that gives no address, ids are for this host, unless
  // KEEL_INTERFACE says "nearest".
  auto launch = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  std::string name;
  HostServerAddress server;
  if (!read_launcher(&launch, &name).ok() || !read_host_server(launch, &server).ok()) {
    return !chosen.empty();
  }
  // Rank 0 is where the launcher's address is.
  if (launch.rank == 0) out_address->host = server.host;
  return true;
}

}  // namespace keel
