// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_server.h"

#include <algorithm>
#include <utility>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/rank_list.h"
#include "collectives/shrink_step.h"
#include "core/log.h"

namespace keel {

Status HostServer::start(FileDescriptor socket, HostSecret secret, const ProcessToken& job,
                         std::string name, uint64_t epoch,
                         std::shared_ptr<HostServer>* out_server) {
  auto server = std::make_shared<HostServer>(secret, job, std::move(name));
  KEEL_RETURN_IF_ERROR(random_bytes(&server->table_.job.bytes));
  KEEL_RETURN_IF_ERROR(own_address(socket.get(), &server->address_));
  server->table_.epoch = epoch;
  if (out_server != nullptr) *out_server = server;
  const auto admit = [job](const Opening& opening) -> Status {
    if (opening.purpose == Opening::Purpose::kServer && opening.job == job) return {};
    return failure(KEEL_NOT_FOUND, "another job's server listens here");
  };
  return HostListener::open(
      std::move(socket), std::move(secret), admit,
      [server](const Opening&, FileDescriptor peer) { server->on_peer(std::move(peer)); },
      &server->listener_);
}

void HostServer::on_peer(FileDescriptor socket) {
  const uint64_t number = add_connection(std::move(socket), kMaxHelloBytes);
  if (number != 0) {
    connections_[number].channel->set_deadline(Deadline::after(kHandshakeNs));
  }
}

uint64_t HostServer::add_connection(FileDescriptor socket, size_t limit) {
  const uint64_t number = next_++;
  const std::shared_ptr<HostServer> self = shared_from_this();
  TcpChannel::Callbacks callbacks;
  callbacks.on_message = [self, number](ByteView message) { self->on_message(number, message); };
  callbacks.on_end = [self, number](const Status& why) { self->on_end(number, why); };
  callbacks.on_deadline = [self, number] { self->on_deadline(number); };
  Connection& connection = connections_[number];
  const Status opened =
      TcpChannel::open(std::move(socket), limit, std::move(callbacks), &connection.channel);
  if (!opened.ok()) {
    log(KEEL_LOG_WARNING, "{}: a rank is not let in: {}", name_, opened.text());
    connections_.erase(number);
    return 0;
  }
  return number;
}

void HostServer::on_message(uint64_t number, ByteView message) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (!connection.has_arrived) {
    const Status status = on_hello(number, connection, message);
    if (!status.ok()) refuse(number, status);
    return;
  }
  if (!is_complete_) {  // the rank has reached its deadline
    const uint32_t rank = connection.rank;
    const Status answer = parse_question(message).ok()
                              ? failure(KEEL_TIMED_OUT, "{}", absent_ranks())
                              : failure(KEEL_DATA_LOSS, "rank {} sent an unknown message", rank);
    members_.erase(rank);
    arrived_.erase(rank);
    refuse(number, answer);
    return;
  }
  RegroupAsk ask;
  if (parse_regroup_ask(message, &ask).ok()) {
    on_ask(connection, ask);
    return;
  }
  Notice notice;
  const Status parsed = parse_notice(message, &notice);
  if (!parsed.ok()) {
    on_end(number, parsed);
    return;
  }
  on_notice(number, connection, notice);
}

Status HostServer::on_hello(uint64_t number, Connection& connection, ByteView message) {
  HostHello hello;
  KEEL_RETURN_IF_ERROR(parse_host_hello(message, &hello));
  const uint32_t rank = hello.self.peer.rank;
  if (!failure_.ok()) {
    answered_.insert(rank);
    stop_listening_if_all_know();
    return failure_;
  }
  if (members_.empty()) {
    world_ = hello.world;
    first_rank_ = rank;
  }
  KEEL_RETURN_IF_ERROR(check(hello));
  connection.has_arrived = true;
  connection.rank = rank;
  connection.channel->set_deadline(std::nullopt);
  members_[rank] = number;
  arrived_[rank] = std::move(hello.self);
  if (members_.size() == world_) complete();
  return {};
}

Status HostServer::check(const HostHello& hello) const {
  const HostRank& self = hello.self;
  if (is_complete_) {
    return failure(KEEL_UNAVAILABLE, "all {} ranks have met: the rendezvous is over", world_);
  }
  const std::string own =
      fmt::format("{}.{}.{}", KEEL_VERSION_MAJOR, KEEL_VERSION_MINOR, KEEL_VERSION_PATCH);
  if (hello.version != own) {
    return failure(KEEL_UNSUPPORTED, "{} has Keel {}, the server has Keel {}: all hosts need one",
                   self.name(), hello.version, own);
  }
  if (hello.world != world_) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "rank {} says that the world has {} ranks, rank {} has said {}", self.peer.rank,
                   hello.world, first_rank_, world_);
  }
  const auto other = arrived_.find(self.peer.rank);
  if (other != arrived_.end()) {
    return failure(KEEL_ALREADY_EXISTS,
                   "{} has arrived already; a second one is process {} on "
                   "host '{}'",
                   other->second.name(), self.peer.pid, self.host_name);
  }
  return {};
}

void HostServer::complete() {
  is_complete_ = true;
  for (auto& [rank, self] : arrived_) table_.ranks.push_back(std::move(self));
  arrived_.clear();
  listener_->close();
  listener_.reset();
  const Bytes message = write_host_table(table_, MemHandleServer::get().token());
  // Connections that have not sent their hello belong to no rank of this job.
  std::vector<uint64_t> others;
  for (auto& [number, connection] : connections_) {
    if (!connection.has_arrived) {
      others.push_back(number);
      continue;
    }
    connection.channel->set_limit(kMaxNoticeBytes);
    connection.channel->send(message);
    connection.channel->set_deadline(Deadline::after(kAliveNs));
    reach(ShrinkStep::kTold);
  }
  for (const uint64_t number : others) {
    refuse(number,
           failure(KEEL_UNAVAILABLE, "all {} ranks have met: the rendezvous is over", world_));
  }
}

void HostServer::on_end(uint64_t number, const Status& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const bool has_arrived = found->second.has_arrived;
  const uint32_t rank = found->second.rank;
  forget(number);
  if (!has_arrived) return;
  if (is_complete_) {
    if (!gone_[rank]) {
      fail_rank(rank, failure(KEEL_RANK_FAILED, "{} has failed: its link to the server: {}",
                              table_.ranks[rank].name(), why.text()));
    }
    return;
  }
  if (!failure_.ok()) return;
  fail_rendezvous(failure(KEEL_RANK_FAILED, "{} has ended while it waited for the others: {}",
                          arrived_.at(rank).name(), why.text()));
}

void HostServer::on_deadline(uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  if (!found->second.has_arrived) {
    refuse(number, failure(KEEL_TIMED_OUT, "no word for {} s", kHandshakeNs / 1'000'000'000));
    return;
  }
  if (!is_complete_) return;
  const std::shared_ptr<TcpChannel> channel = found->second.channel;
  channel->keep_alive(write_notice({}), kAliveNs);  // may end it
  judge_reports();
  leave_out_absent();
}

void HostServer::on_notice(uint64_t number, const Connection& connection, const Notice& notice) {
  const uint32_t rank = connection.rank;
  switch (notice.kind) {
    case Notice::Kind::kAbort:
      is_judged_ = true;
      tell({Notice::Kind::kAbort, rank,
            notice.status.ok() ? failure(KEEL_ABORTED, "{} aborted", table_.ranks[rank].name())
                               : notice.status});
      return;
    case Notice::Kind::kLost:
      if (notice.rank >= world_ || notice.rank == rank) return;
      if (own_rank_) {
        if (rank == own_rank_ && !gone_[notice.rank]) fail_rank(notice.rank, notice.status);
        return;
      }
      if (gone_[notice.rank]) {
        if (is_judged_) return;
        fail_rank(notice.rank,
                  failure(KEEL_RANK_FAILED, "{} has left the job, and {} waits for it",
                          table_.ranks[notice.rank].name(), table_.ranks[rank].name()));
        return;
      }
      reports_.push_back(
          {notice.rank,
           failure(KEEL_RANK_FAILED, "the wire from {} to {}: {}", table_.ranks[rank].name(),
                   table_.ranks[notice.rank].name(), notice.status.text()),
           Deadline::after(kGraceNs)});
      connection.channel->set_deadline(Deadline::after(kGraceNs));
      return;
    case Notice::Kind::kLeft:
      gone_[rank] = true;
      tell({Notice::Kind::kLeft, rank, {}});
      forget(number);  // the rank waits until its connection is closed
      regroup_without(rank,
                      failure(KEEL_RANK_FAILED, "{} has left the job", table_.ranks[rank].name()));
      return;
    case Notice::Kind::kReady:
      on_ready(rank);
      return;
    case Notice::Kind::kRegroup:
    case Notice::Kind::kAlive:
    case Notice::Kind::kFailed:
      return;
  }
}

void HostServer::judge_reports() {
  std::vector<Report> due;
  const auto first = std::stable_partition(reports_.begin(), reports_.end(),
                                           [](const Report& each) { return !each.due.passed(); });
  std::move(first, reports_.end(), std::back_inserter(due));
  reports_.erase(first, reports_.end());
  for (const Report& report : due) {
    if (is_judged_) return;  // the wires of an ended job fail one after the other
    fail_rank(report.rank, report.why);
  }
}

void HostServer::fail_rank(uint32_t rank, const Status& why) {
  gone_[rank] = true;
  is_judged_ = true;
  tell({Notice::Kind::kFailed, rank, why});
  regroup_without(rank, why);
}

void HostServer::tell(const Notice& notice) {
  const Bytes message = write_notice(notice);
  for (auto& [number, connection] : connections_) {
    connection.channel->send(message);
    if (notice.kind == Notice::Kind::kReady) reach(ShrinkStep::kDecided);
  }
}

void HostServer::refuse(uint64_t number, const Status& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const std::shared_ptr<TcpChannel> channel = found->second.channel;
  connections_.erase(found);
  channel->send(write_answer(why));
  channel->close_when_sent();
}

void HostServer::fail_rendezvous(const Status& why) {
  failure_ = why;
  std::vector<uint64_t> arrived;
  for (const auto& [rank, number] : members_) {
    arrived.push_back(number);
    answered_.insert(rank);
  }
  members_.clear();
  arrived_.clear();
  for (const uint64_t number : arrived) refuse(number, why);
  stop_listening_if_all_know();
}

void HostServer::stop_listening_if_all_know() {
  if (!listener_ || answered_.size() < world_) return;
  listener_->close();
  listener_.reset();
}

void HostServer::forget(uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const std::shared_ptr<TcpChannel> channel = found->second.channel;
  connections_.erase(found);
  channel->close();
}

std::string HostServer::absent_ranks() const {
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!members_.contains(rank)) absent.push_back(rank);
  }
  return fmt::format("{} of {} {} not come", rank_list(absent), world_,
                     absent.size() == 1 ? "has" : "have");
}

}  // namespace keel
