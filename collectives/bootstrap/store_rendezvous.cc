// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/store_rendezvous.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/namespaces.h"
#include "collectives/bootstrap/proc_peers.h"
#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/rank_list.h"
#include "collectives/flight/flight_clock.h"
#include "collectives/transports/control_segment.h"
#include "core/insiders.h"

namespace keel {

namespace {

// How long a rank waits after its deadline for rank 0 to name the missing ranks, and how long the
// report of a failure may take.
constexpr int64_t kGraceNs = 1'000'000'000;

constexpr const char* kRank = "rank";
constexpr const char* kReport = "report";
constexpr const char* kRoster = "roster";
constexpr const char* kFailed = "failed";

std::string rank_key(uint32_t rank) {
  return fmt::format("{}/{}", kRank, rank);
}
std::string report_key(uint32_t rank) {
  return fmt::format("{}/{}", kReport, rank);
}

ProcessPlace own_place() {
  return {given_host_id(), boot_id().substr(0, 64), namespace_number("pid"),
          namespace_number("net")};
}

}  // namespace

StoreRendezvous::StoreRendezvous(const CallerStore& store, uint32_t rank, uint32_t world,
                                 const Deadline& deadline)
    : store_(store), rank_(rank), world_(world), deadline_(deadline) {}

Status StoreRendezvous::meet(const PeerInfo& self, SegmentFactory factory,
                             const ServeHosts& serve_hosts, StoreRendezvousResult* out_result) {
  const std::string who = fmt::format("rank {} of {}: ", rank_, world_);
  // A rank that another process has come as leaves the others alone.
  KEEL_RETURN_IF_ERROR(arrive(self).with_prefix(who));
  const Status met = rank_ == 0 ? lead(factory, serve_hosts, out_result) : follow(out_result);
  if (!met.ok() && met.code() != KEEL_ALREADY_EXISTS) refuse(met);
  return met.with_prefix(who);
}

void StoreRendezvous::refuse(const Status& why) const {
  const bool is_common = why.code() == KEEL_TIMED_OUT || why.code() == KEEL_INVALID_ARGUMENT;
  const Status told(is_common ? why.code() : KEEL_RANK_FAILED,
                    fmt::format("rank {}: {}", rank_, why.text()));
  // The first failure stays, but for two at one time. A store that fails here has failed before.
  Bytes known;
  if (store_.look_up(kFailed, kMaxStoreReport, &known).ok()) return;
  (void)store_.set(kFailed, write_store_report({own_.ticket, told}), Deadline::after(kGraceNs));
}

Status StoreRendezvous::arrive(const PeerInfo& self) {
  KEEL_RETURN_IF_ERROR(random_bytes(&own_.ticket.bytes));
  own_.world = world_;
  own_.self = self;
  own_.place = own_place();
  const Status prepared = ProcPeers::get().own_lifeline(&own_.lifeline);
  if (!prepared.ok()) {
    refuse(prepared);
    return prepared;
  }
  Bytes before;
  const Status looked = store_.look_up(rank_key(rank_), kMaxStoreArrival, &before);
  if (looked.ok()) {
    StoreArrival other;
    KEEL_RETURN_IF_ERROR(
        parse_store_arrival(before, &other)
            .with_prefix(fmt::format("the store's value of '{}': ", store_.key(rank_key(rank_)))));
    return already_there(other.self);
  }
  Status status = looked.code() == KEEL_TIMED_OUT
                      ? store_.set(rank_key(rank_), write_store_arrival(own_), deadline_)
                      : looked;
  if (!status.ok()) refuse(status);
  return status;
}

Status StoreRendezvous::already_there(const PeerInfo& other) const {
  return failure(KEEL_ALREADY_EXISTS,
                 "the store has this rank already, '{}' of process {}, device '{}': two processes "
                 "are one rank, or the prefix was used before and needs to be another for each "
                 "communicator",
                 store_.key(rank_key(rank_)), other.pid, other.device);
}

Status StoreRendezvous::read_arrival(uint32_t rank, const Deadline& deadline, const Look& look,
                                     StoreArrival* out_arrival) const {
  Bytes bytes;
  KEEL_RETURN_IF_ERROR(store_.get(rank_key(rank), kMaxStoreArrival, deadline, look, &bytes));
  Status parsed = parse_store_arrival(bytes, out_arrival);
  if (parsed.ok() && out_arrival->world != world_) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "rank {} says that the world has {} ranks, this rank has said {}", rank,
                   out_arrival->world, world_);
  }
  if (parsed.ok() && out_arrival->self.rank != rank) {
    parsed = failure(KEEL_DATA_LOSS, "it is of rank {}", out_arrival->self.rank);
  }
  return parsed.with_prefix(fmt::format("the store's value of '{}': ", store_.key(rank_key(rank))));
}

Status StoreRendezvous::check_failed() const {
  Bytes bytes;
  const Status looked = store_.look_up(kFailed, kMaxStoreReport, &bytes);
  if (looked.code() == KEEL_TIMED_OUT) return {};
  KEEL_RETURN_IF_ERROR(looked);
  StoreReport report;
  KEEL_RETURN_IF_ERROR(
      parse_store_report(bytes, &report)
          .with_prefix(fmt::format("the store's value of '{}': ", store_.key(kFailed))));
  return report.result;
}

Status StoreRendezvous::check_alive(const StoreArrival& arrival) const {
  const PeerInfo& peer = arrival.self;
  if (peer.process == own_.self.process || !arrival.place.shares_memory(own_.place)) return {};
  if (!has_process_ended(peer.pid, peer.start_time)) return {};
  return failure(KEEL_RANK_FAILED, "rank {} (process {}, device '{}') has ended while it waited",
                 peer.rank, peer.pid, peer.device);
}

std::string StoreRendezvous::absent_ranks(const char* key) const {
  std::vector<uint32_t> absent;
  Bytes bytes;
  // Rank 0 reports nothing to itself.
  for (uint32_t rank = key == kReport ? 1 : 0; rank < world_; ++rank) {
    const std::string name = fmt::format("{}/{}", key, rank);
    if (!store_.look_up(name, kMaxStoreArrival, &bytes).ok()) absent.push_back(rank);
  }
  if (absent.empty()) return {};
  return fmt::format("{} of {} {}", rank_list(absent), world_, absent.size() == 1 ? "has" : "have");
}

Status StoreRendezvous::late() const {
  const std::string absent = absent_ranks(kRank);
  if (absent.empty()) {
    return failure(KEEL_TIMED_OUT, "all ranks have come, but the store has no '{}' in time",
                   store_.key(kRoster));
  }
  return failure(KEEL_TIMED_OUT, "{} not come to the store, as '{}/RANK'", absent,
                 store_.key(kRank));
}

// ---- rank 0 ---------------------------------------------------------------------

Status StoreRendezvous::lead(SegmentFactory factory, const ServeHosts& serve_hosts,
                             StoreRendezvousResult* out_result) {
  std::vector<StoreArrival> arrivals;
  KEEL_RETURN_IF_ERROR(collect(&arrivals));
  KEEL_RETURN_IF_ERROR(check_own_key());
  StoreRoster roster;
  for (const StoreArrival& each : arrivals) {
    roster.ranks.push_back({each.ticket, each.self, each.place.net_namespace, each.lifeline});
  }
  const bool share_memory =
      std::all_of(arrivals.begin(), arrivals.end(),
                  [&](const StoreArrival& each) { return each.place.shares_memory(own_.place); });
  if (!share_memory) return lead_hosts(arrivals, serve_hosts, &roster, out_result);
  const Look look = [&]() -> Status {
    for (const StoreArrival& each : arrivals) KEEL_RETURN_IF_ERROR(check_alive(each));
    return check_failed();
  };
  return lead_inside(factory, &roster, out_result, look);
}

Status StoreRendezvous::collect(std::vector<StoreArrival>* out_arrivals) const {
  std::vector<StoreArrival>& arrivals = *out_arrivals;
  arrivals.push_back(own_);
  const Look look = [&]() -> Status {
    for (const StoreArrival& each : arrivals) KEEL_RETURN_IF_ERROR(check_alive(each));
    return check_failed();
  };
  for (uint32_t rank = 1; rank < world_; ++rank) {
    StoreArrival arrival;
    const Status read = read_arrival(rank, deadline_, look, &arrival);
    if (read.code() == KEEL_TIMED_OUT && deadline_.passed()) return late();
    KEEL_RETURN_IF_ERROR(read);
    arrivals.push_back(std::move(arrival));
  }
  return {};
}

Status StoreRendezvous::check_own_key() const {
  StoreArrival now;
  KEEL_RETURN_IF_ERROR(read_arrival(
      rank_, deadline_, [] { return Status(); }, &now));
  return now.ticket == own_.ticket ? Status() : already_there(now.self);
}

Status StoreRendezvous::lead_hosts(const std::vector<StoreArrival>& arrivals,
                                   const ServeHosts& serve_hosts, StoreRoster* roster,
                                   StoreRendezvousResult* out_result) const {
  HostSecret secret;
  KEEL_RETURN_IF_ERROR(HostSecret::load(&secret));
  for (const StoreArrival& each : arrivals) {
    if (secret.is_given() || each.place.shares_network(own_.place)) continue;
    return failure(KEEL_FAILED_PRECONDITION,
                   "rank {} is on another machine than rank 0, or in another pid namespace and "
                   "another network namespace: such ranks meet over TCP, for which they need a "
                   "secret (KEEL_SECRET_FILE or KEEL_SECRET_FD; docs/hosts.md)",
                   each.self.rank);
  }
  KEEL_RETURN_IF_ERROR(serve_hosts(&out_result->hosts));
  out_result->spans_hosts = true;
  roster->id = out_result->hosts.text;
  return store_.set(kRoster, write_store_roster(*roster), deadline_);
}

Status StoreRendezvous::lead_inside(SegmentFactory factory, StoreRoster* roster,
                                    StoreRendezvousResult* out_result, const Look& look) const {
  Rendezvous& rendezvous = out_result->rendezvous;
  for (const StoreRoster::Rank& rank : roster->ranks) rendezvous.peer_infos.push_back(rank.peer);
  note_peers(*roster);
  FileDescriptor segment;
  KEEL_RETURN_IF_ERROR(factory(rendezvous.peer_infos, &segment));
  MemHandleServer& server = MemHandleServer::get();
  KEEL_RETURN_IF_ERROR(server.publish(std::move(segment), &roster->segment));
  Status status = server.open(roster->segment, &rendezvous.segment);
  if (status.ok()) status = store_.set(kRoster, write_store_roster(*roster), deadline_);
  if (status.ok()) status = await_reports(*roster, look);
  // A rank that does not find the segment looks for the reason.
  if (!status.ok()) refuse(status);
  server.withdraw(roster->segment);
  // Ranks that have the segment wait there.
  if (!status.ok() && rendezvous.segment) {
    ControlSegment::abort_unmapped(
        rendezvous.segment,
        failure(status.code() == KEEL_TIMED_OUT ? KEEL_TIMED_OUT : KEEL_RANK_FAILED, "rank 0: {}",
                status.text()));
  }
  return status;
}

Status StoreRendezvous::await_reports(const StoreRoster& roster, const Look& look) const {
  for (uint32_t rank = 1; rank < world_; ++rank) {
    Bytes bytes;
    const Status got = store_.get(report_key(rank), kMaxStoreReport, deadline_, look, &bytes);
    if (got.code() == KEEL_TIMED_OUT && deadline_.passed()) {
      return failure(KEEL_TIMED_OUT, "{} not entered the communicator", absent_ranks(kReport));
    }
    KEEL_RETURN_IF_ERROR(got);
    StoreReport report;
    Status parsed = parse_store_report(bytes, &report);
    if (parsed.ok() && report.ticket != roster.ranks[rank].ticket) {
      parsed = {KEEL_DATA_LOSS, "it is another process's"};
    }
    KEEL_RETURN_IF_ERROR(parsed.with_prefix(
        fmt::format("the store's value of '{}': ", store_.key(report_key(rank)))));
    KEEL_RETURN_IF_ERROR(report.result);
  }
  return {};
}

// ---- the other ranks ------------------------------------------------------------

Status StoreRendezvous::follow(StoreRendezvousResult* out_result) const {
  StoreArrival leader;
  Status got = read_arrival(
      0, deadline_, [&] { return check_failed(); }, &leader);
  if (got.code() == KEEL_TIMED_OUT && deadline_.passed()) return late();
  KEEL_RETURN_IF_ERROR(got);
  const Look look = [&]() -> Status {
    KEEL_RETURN_IF_ERROR(check_failed());
    return check_alive(leader);
  };
  Bytes bytes;
  const uint64_t most = max_store_roster(world_);
  got = store_.get(kRoster, most, deadline_, look, &bytes);
  if (got.code() == KEEL_TIMED_OUT && deadline_.passed()) {
    // Rank 0, whose deadline passes at about the same time, names the missing ranks.
    const Deadline grace = insiders::deadline(kGraceNs);
    got = store_.get(kRoster, most, grace, look, &bytes);
    if (got.code() == KEEL_TIMED_OUT && grace.passed()) return late();
  }
  KEEL_RETURN_IF_ERROR(got);
  StoreRoster roster;
  Status parsed = parse_store_roster(bytes, &roster);
  if (parsed.ok() && roster.ranks.size() <= rank_) {
    parsed = failure(KEEL_DATA_LOSS, "it has {} ranks", roster.ranks.size());
  }
  KEEL_RETURN_IF_ERROR(
      parsed.with_prefix(fmt::format("the store's value of '{}': ", store_.key(kRoster))));
  const StoreRoster::Rank& entry = roster.ranks[rank_];
  if (entry.ticket != own_.ticket || roster.ranks.size() != world_)
    return already_there(entry.peer);
  if (roster.id.empty()) return enter(roster, out_result);
  out_result->spans_hosts = true;
  std::memcpy(out_result->hosts.text, roster.id.data(), roster.id.size());
  return {};
}

Status StoreRendezvous::enter(const StoreRoster& roster, StoreRendezvousResult* out_result) const {
  Rendezvous& rendezvous = out_result->rendezvous;
  for (const StoreRoster::Rank& rank : roster.ranks) rendezvous.peer_infos.push_back(rank.peer);
  note_peers(roster);
  const ProcessToken& leader = rendezvous.peer_infos[0].process;
  Status status = leader == own_.self.process
                      ? MemHandleServer::get().open(roster.segment, &rendezvous.segment)
                      : fetch_object(
                            leader, roster.segment, deadline_,
                            [] { return insiders::are_cut_off(); }, &rendezvous.segment);
  // Rank 0 withdraws the segment if the rendezvous has failed.
  if (status.code() == KEEL_NOT_FOUND) {
    const Status failed = check_failed();
    if (!failed.ok()) return failed;
  }
  KEEL_RETURN_IF_ERROR(status.with_prefix("the communicator's memory, made by rank 0: "));
  return store_.set(report_key(rank_), write_store_report({own_.ticket, {}}), deadline_);
}

void StoreRendezvous::note_peers(const StoreRoster& roster) const {
  for (const StoreRoster::Rank& rank : roster.ranks) {
    const bool sees_sockets = rank.net_namespace == own_.place.net_namespace;
    if (sees_sockets || rank.peer.process == own_.self.process) continue;
    ProcPeers::get().add(rank.peer.process, {rank.peer.pid, rank.peer.start_time, rank.lifeline});
  }
}

}  // namespace keel
