// SPDX-License-Identifier: Apache-2.0
// The server's part in a shrink: ranks of a failed job meet again without those that failed.
#include <algorithm>
#include <utility>

#include "collectives/bootstrap/host_server.h"
#include "collectives/bootstrap/tcp_id.h"

namespace keel {

Status HostServer::check_ask(uint32_t rank, const RegroupAsk& ask) const {
  const auto gone = gone_.find(rank);
  if (gone != gone_.end() && gone->second) {
    return failure(KEEL_FAILED_PRECONDITION, "{} was taken for failed, and is shut out",
                   table_.ranks[rank].name());
  }
  if (!std::binary_search(ask.members.begin(), ask.members.end(), rank) ||
      ask.members.back() >= world_) {
    return {KEEL_INVALID_ARGUMENT, "a rank asks to go on with ranks that are not its own"};
  }
  const auto known = askings_.find(ask.context);
  if (known == askings_.end()) return {};
  const auto place = known->second.places.find(ask.position);
  const bool is_taken = place != known->second.places.end() && place->second != rank;
  if (known->second.members != ask.members || is_taken) {
    return {KEEL_INVALID_ARGUMENT, "the ranks disagree about who is in the communicator"};
  }
  return {};
}

bool HostServer::has_asked(const Asking& asking, uint32_t rank) const {
  return std::any_of(asking.places.begin(), asking.places.end(),
                     [&](const auto& place) { return place.second == rank; });
}

void HostServer::on_ask(const Connection& connection, const RegroupAsk& ask) {
  const uint32_t rank = connection.rank;
  const Status able = check_ask(rank, ask);
  if (!able.ok()) {
    connection.channel->send(write_notice({Notice::Kind::kRegroup, rank, able}));
    return;
  }
  Asking& asking = askings_[ask.context];
  asking.members = ask.members;
  if (ask.withdraws) {
    if (asking.places.erase(ask.position) == 0) return;  // was answered meanwhile
    std::string missing;
    for (const uint32_t member : asking.members) {
      if (member == rank || gone_[member] || has_asked(asking, member)) continue;
      missing += (missing.empty() ? "" : ", ") + table_.ranks[member].name();
    }
    if (missing.size() > kMaxAnswerText / 2)
      missing = missing.substr(0, kMaxAnswerText / 2) + "...";
    const Status late = failure(KEEL_TIMED_OUT, "{} did not call keel_comm_shrink in time",
                                missing.empty() ? "a rank" : missing);
    connection.channel->send(write_notice({Notice::Kind::kRegroup, rank, late}));
    return;
  }
  // A rank that asks again could not join: the others need not wait there.
  const std::shared_ptr<HostServer> next = asking.next.lock();
  if (next && !next->is_complete_ && next->failure_.ok()) {
    next->fail_rendezvous(failure(KEEL_RANK_FAILED, "{} could not enter the new communicator",
                                  table_.ranks[rank].name()));
  }
  asking.places[ask.position] = rank;
  if (ask.absent_ns > 0) {
    const Deadline due = Deadline::after(ask.absent_ns);
    if (!asking.absent || due.remaining_ns() < asking.absent->remaining_ns()) asking.absent = due;
    // Later than that by the interval of notices at most.
    connection.channel->set_deadline(Deadline::after(std::min(ask.absent_ns, kAliveNs)));
  }
  regroup_if_all_asked(asking);
}

void HostServer::leave_out_absent() {
  std::vector<uint32_t> absent;
  for (auto& [context, asking] : askings_) {
    if (!asking.absent || !asking.absent->passed()) continue;
    asking.absent.reset();
    if (asking.places.empty()) continue;
    for (const uint32_t member : asking.members) {
      if (!gone_[member] && !has_asked(asking, member)) absent.push_back(member);
    }
  }
  for (const uint32_t rank : absent) {
    if (gone_[rank]) continue;
    fail_rank(rank, failure(KEEL_RANK_FAILED, "{} did not call keel_comm_shrink, and is left out",
                            table_.ranks[rank].name()));
  }
}

void HostServer::regroup_without(uint32_t rank, const Status& why) {
  for (auto& [context, asking] : askings_) {
    if (!std::binary_search(asking.members.begin(), asking.members.end(), rank)) continue;
    std::erase_if(asking.places, [&](const auto& place) { return place.second == rank; });
    // The ranks that are left may wait for |rank| in another rendezvous.
    const std::shared_ptr<HostServer> next = asking.next.lock();
    if (next && !next->is_complete_ && next->failure_.ok()) next->fail_rendezvous(why);
    regroup_if_all_asked(asking);
  }
}

void HostServer::regroup_if_all_asked(Asking& asking) {
  if (asking.places.empty()) return;
  for (const uint32_t member : asking.members) {
    if (!gone_[member] && !has_asked(asking, member)) return;
  }
  asking.absent.reset();
  const std::map<uint32_t, uint32_t> places = std::exchange(asking.places, {});
  keel_unique_id id = {};
  std::shared_ptr<HostServer> next;
  const Status started = start_next(&id, &next);
  asking.next = next;
  Regroup regroup = {id.text, 0, {}};
  for (const auto& [position, rank] : places) regroup.left.push_back(position);
  for (const auto& [position, rank] : places) {
    const auto found = connections_.find(members_[rank]);
    if (found != connections_.end()) {
      found->second.channel->send(started.ok()
                                      ? write_regroup(regroup)
                                      : write_notice({Notice::Kind::kRegroup, rank, started}));
    }
    ++regroup.rank;
  }
}

Status HostServer::start_next(keel_unique_id* out_id, std::shared_ptr<HostServer>* out_next) {
  ProcessToken job;
  FileDescriptor socket;
  SocketAddress bound = address_;
  bound.set_port(0);
  KEEL_RETURN_IF_ERROR(random_bytes(&job.bytes));
  KEEL_RETURN_IF_ERROR(listen_tcp(bound, &socket, &bound));
  KEEL_RETURN_IF_ERROR(start(std::move(socket), secret_, job, name_, table_.epoch + 1, out_next));
  *out_id = TcpId{bound.host(), bound.port(), job}.id();
  return {};
}

std::shared_ptr<HostServer> HostServer::succeed(const HostSecret& secret, const HostTable& table,
                                                const SocketAddress& address, uint32_t own) {
  auto server = std::make_shared<HostServer>(secret, table.job, "the rendezvous after a failure");
  server->table_ = table;
  server->address_ = address;
  server->world_ = static_cast<uint32_t>(table.ranks.size());
  server->own_rank_ = own;
  server->is_complete_ = true;
  server->is_judged_ = true;  // the end of the server before was
  return server;
}

void HostServer::adopt(uint32_t rank, FileDescriptor socket) {
  const uint64_t number = add_connection(std::move(socket), kMaxNoticeBytes);
  if (number == 0) return;
  // A rank has one connection: a second one replaces the first, whose end is then no failure.
  if (const auto member = members_.find(rank); member != members_.end()) forget(member->second);
  Connection& connection = connections_[number];
  connection.has_arrived = true;
  connection.rank = rank;
  members_[rank] = number;
  connection.channel->set_deadline(Deadline::after(kAliveNs));
}

void HostServer::on_ready(uint32_t rank) {
  if (is_judged_) return;  // every rank gets that verdict instead
  for (const auto& [other, is_gone] : gone_) {
    if (is_gone) return;
  }
  ready_.insert(rank);
  if (ready_.size() == world_) tell({Notice::Kind::kReady, 0, {}});
}

}  // namespace keel
