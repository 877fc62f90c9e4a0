// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator_entry.h"

#include <unistd.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "collectives/bootstrap/launcher_environment.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/rendezvous.h"
#include "collectives/bootstrap/store_rendezvous.h"
#include "collectives/hosts/host_entry.h"
#include "collectives/shared_chip.h"
#include "collectives/team.h"
#include "core/insiders.h"

namespace keel {

PeerInfo NewRank::introduce() const {
  PeerInfo self;
  self.rank = rank;
  self.pid = getpid();
  self.process = MemHandleServer::get().token();
  self.device = device->name().substr(0, kMaxDeviceName);
  const bool has_alias = device->has(KEEL_CAPABILITY_HOST_ALIAS) && !options.forbid_alias;
  self.flags = (has_alias ? 0u : Team::kNoAlias) |
               (device->has(KEEL_CAPABILITY_EXPORT) ? 0u : Team::kOneProcess) |
               options.flags(*device);
  self.chip = PeerChip::of(device->info());
  return self;
}

Status NewRank::introduce_to_processes(PeerInfo* out_self) const {
  *out_self = introduce();
  KEEL_RETURN_IF_ERROR(own_start_time(&out_self->start_time));
  return MemHandleServer::get().listen().with_prefix(fmt::format("rank {} of {}, ", rank, world));
}

namespace {

// Joins a job that may span hosts, by |id| or through a launcher at |rendezvous|.
Status join_hosts(const NewRank& self, const keel_unique_id& id, const HostRendezvous* rendezvous,
                  const Deadline& deadline, Ref<Communicator>* out_communicator) {
  PeerInfo info;
  KEEL_RETURN_IF_ERROR(self.introduce_to_processes(&info));
  std::unique_ptr<HostGroup> hosts;
  KEEL_RETURN_IF_ERROR(
      enter_hosts(id, rendezvous, info, self.world, self.options.agreement(), deadline, &hosts));
  warn_of_shared_chip(hosts->peer_infos(), hosts->rank(),
                      [&](uint32_t rank) { return hosts->name(rank); });
  return Communicator::enter_hosts(std::move(hosts), self.device, self.options, deadline,
                                   out_communicator);
}

// Joins the rendezvous |id| on this host.
Status join_inside(const NewRank& self, const keel_unique_id& id, const Deadline& deadline,
                   Ref<Communicator>* out_communicator) {
  PeerInfo info;
  KEEL_RETURN_IF_ERROR(self.introduce_to_processes(&info));
  Rendezvous rendezvous;
  KEEL_RETURN_IF_ERROR(attend_rendezvous(id, info, self.world, deadline, &rendezvous));
  return enter_met(self, rendezvous, deadline, out_communicator);
}

}  // namespace

Status enter_met(const NewRank& self, const Rendezvous& rendezvous, const Deadline& deadline,
                 Ref<Communicator>* out_communicator) {
  std::shared_ptr<Team> team;
  try {
    KEEL_RETURN_IF_ERROR(Team::join(rendezvous, self.rank, &team));
  } catch (const std::bad_alloc&) {
    // The peers have met this rank, and would wait. Memory may not suffice for the rank's name.
    ControlSegment::abort_unmapped(rendezvous.segment, Status::no_memory());
    throw;
  }
  KEEL_RETURN_IF_ERROR(
      Communicator::enter(team, self.rank, self.device, self.options, deadline, out_communicator));
  warn_of_shared_chip(team->peer_infos(), self.rank,
                      [&](uint32_t rank) { return team->name(rank); });
  return {};
}

Status join_by_id(const NewRank& self, const keel_unique_id& id,
                  Ref<Communicator>* out_communicator) {
  const Deadline deadline = insiders::deadline(self.options.timeout_ns);
  return is_host_id(id) ? join_hosts(self, id, nullptr, deadline, out_communicator)
                        : join_inside(self, id, deadline, out_communicator);
}

Status join_launched(NewRank self, Ref<Communicator>* out_communicator) {
  auto launch = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  const Deadline deadline = insiders::deadline(self.options.timeout_ns);
  std::string name;
  KEEL_RETURN_IF_ERROR(read_launcher(&launch, &name));
  self.rank = launch.rank;
  self.world = launch.world;
  HostRendezvous rendezvous;
  rendezvous.name = name;
  Status joined = read_host_server(launch, &rendezvous.address);
  if (joined.ok()) {
    keel_unique_id id = {};
    const bool serves = launch.rank == 0;
    if (serves) joined = serve_hosts_at(rendezvous.address, name, &id);
    if (joined.ok()) {
      joined = join_hosts(self, id, serves ? nullptr : &rendezvous, deadline, out_communicator);
    }
  } else if (joined.code() == KEEL_NOT_FOUND) {  // all ranks are on this host
    keel_unique_id id = rendezvous_id(name);
    joined = {};
    if (launch.rank == 0) joined = serve_rendezvous_at(&Team::make_segment, name, &id);
    if (joined.ok()) joined = join_inside(self, id, deadline, out_communicator);
  }
  // Ranks are missing or duplicate: the variables may belong to a different job.
  if (joined.code() == KEEL_TIMED_OUT || joined.code() == KEEL_ALREADY_EXISTS) {
    return failure(joined.code(), "{}; {}", joined.text(), launcher_hint(launch));
  }
  return joined;
}

Status join_by_store(const NewRank& self, const CallerStore& store,
                     Ref<Communicator>* out_communicator) {
  const Deadline deadline = insiders::deadline(self.options.timeout_ns);
  StoreRendezvous place(store, self.rank, self.world, deadline);
  PeerInfo info;
  const Status ready = self.introduce_to_processes(&info);
  if (!ready.ok()) {
    place.refuse(ready);
    return ready;
  }
  const auto serve = [](keel_unique_id* out_id) {
    HostServerAddress address;
    is_id_for_hosts(&address);
    return serve_hosts(address, out_id);
  };
  StoreRendezvousResult result;
  KEEL_RETURN_IF_ERROR(place.meet(info, &Team::make_segment, serve, &result));
  if (result.spans_hosts) {
    return join_hosts(self, result.hosts, nullptr, deadline, out_communicator);
  }
  return enter_met(self, result.rendezvous, deadline, out_communicator);
}

}  // namespace keel
