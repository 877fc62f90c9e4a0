// SPDX-License-Identifier: Apache-2.0
// A rank that goes on after a failure: asks the server, or, if that has ended, its successor.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "collectives/bootstrap/host_server.h"
#include "collectives/bootstrap/tcp_host_session.h"
#include "core/insiders.h"

namespace keel {

namespace {

// How long a rank waits for a server that it has told that it withdraws.
constexpr int64_t kAnswerNs = 2'000'000'000;
// Time between two looks at who has ended, and between two attempts to reach the successor.
constexpr int64_t kLookNs = 100'000'000;
constexpr std::chrono::milliseconds kPause(20);

// Pauses before |rank| is asked again.
Status pause_until(const Deadline& deadline, const HostRank& rank) {
  if (deadline.is_cut_off()) return {KEEL_ABORTED, insiders::kCutOff};
  if (deadline.passed()) {
    return failure(KEEL_TIMED_OUT, "{} did not answer in time: it may have ended, or be stopped",
                   rank.name());
  }
  std::this_thread::sleep_for(kPause);
  return {};
}

}  // namespace

Status TcpHostSession::regroup(const RegroupRequest& request, const Deadline& deadline,
                               RegroupPlace* out_place) {
  std::lock_guard turn(regroup_mutex_);
  RegroupAsk question;
  question.context = request.context;
  question.absent_ns = request.absent_ns;
  question.members = request.members;
  std::sort(question.members.begin(), question.members.end());
  question.position = static_cast<uint32_t>(
      std::find(request.members.begin(), request.members.end(), rank_) - request.members.begin());
  while (true) {
    bool has_server = false;
    {
      std::lock_guard lock(mutex_);
      has_server = has_server_;
    }
    if (!has_server) KEEL_RETURN_IF_ERROR(find_server(request, question.members, deadline));
    const Status answered = ask(request, question, deadline);
    if (answered.code() == KEEL_UNAVAILABLE && !deadline.passed()) continue;  // it has ended too
    KEEL_RETURN_IF_ERROR(answered);
    KEEL_RETURN_IF_ERROR(check_left_out(request, question.members, deadline));
    std::lock_guard lock(mutex_);
    if (regroup_->left.back() >= request.members.size()) {
      return {KEEL_DATA_LOSS, "the server names a rank that the communicator does not have"};
    }
    out_place->id = {};
    regroup_->id.copy(out_place->id.text, sizeof(out_place->id.text) - 1);
    out_place->rank = regroup_->rank;
    out_place->left = regroup_->left;
    return {};
  }
}

Status TcpHostSession::ask(const RegroupRequest& request, RegroupAsk ask,
                           const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto is_answered = [this] { return regroup_ || !regroup_failure_.ok() || !has_server_; };
  regroup_.reset();
  regroup_failure_ = Status();
  server_locked().send(write_regroup_ask(ask));
  while (!is_answered() && !deadline.passed()) {
    // A rank that serves may go back to an earlier job without the end of its process.
    const bool looks = serves_ || (request.confirm_end && successor_rank_);
    const int64_t slice = std::min(deadline.remaining_ns(), looks ? kLookNs : INT64_MAX);
    if (insiders::deadline(slice).wait(judged_, lock, is_answered) || !looks) continue;
    const bool serves = serves_;
    lock.unlock();
    KEEL_RETURN_IF_ERROR(serves ? probe(request, ask.members, deadline)
                                : probe_successor(request, deadline));
    lock.lock();
  }
  if (!is_answered()) {
    if (deadline.is_cut_off()) return {KEEL_ABORTED, insiders::kCutOff};
    // The server names the ranks that have not asked, unless they have just done so.
    ask.withdraws = true;
    server_locked().send(write_regroup_ask(ask));
    Deadline::after(kAnswerNs).wait(judged_, lock, is_answered);
  }
  if (!regroup_failure_.ok()) return regroup_failure_;
  if (regroup_) return {};
  if (!has_server_) {
    return {KEEL_UNAVAILABLE,
            "the process that serves the job has ended: the ranks that are left cannot agree"};
  }
  return {KEEL_TIMED_OUT, "a rank that is left has not asked to go on"};
}

// Which rank is the lowest is judged by the kernel of each rank's host alone: all ranks then find
// the same one, without an agreement.
Status TcpHostSession::find_server(const RegroupRequest& request,
                                   const std::vector<uint32_t>& members, const Deadline& deadline) {
  for (const uint32_t member : members) {
    if (member == rank_ && !serves_) {
      const auto server = HostServer::succeed(hub_->secret(), table_, hub_->address(), rank_);
      hub_->serve([server](uint32_t rank, FileDescriptor socket) {
        server->adopt(rank, std::move(socket));
      });
      std::lock_guard lock(mutex_);
      serves_ = true;
    }
    while (true) {
      FileDescriptor socket;
      const Status connected = hub_->connect_server(member, request.context, deadline, &socket);
      if (connected.ok()) {
        std::lock_guard lock(mutex_);
        successor_rank_ = member;
      }
      if (connected.ok()) return open_successor(std::move(socket));
      if (connected.code() == KEEL_RANK_FAILED) {
        if (request.confirm_end) KEEL_RETURN_IF_ERROR(request.confirm_end(member));
        break;  // has ended
      }
      if (connected.code() != KEEL_UNAVAILABLE) return connected;
      if (deadline.is_cut_off()) return {KEEL_ABORTED, insiders::kCutOff};
      if (deadline.passed()) {
        return keel::failure(KEEL_TIMED_OUT,
                             "{} did not call keel_comm_shrink in time: it would serve the job, "
                             "since the process that did has ended",
                             table_.ranks[member].name());
      }
      std::this_thread::sleep_for(kPause);
    }
  }
  return {KEEL_UNAVAILABLE, "no rank that is left can be reached"};
}

Status TcpHostSession::open_successor(FileDescriptor socket) {
  TcpChannel::Callbacks callbacks;
  callbacks.on_message = [this](ByteView message) { on_message(message); };
  callbacks.on_end = [this](const Status&) {
    std::lock_guard lock(mutex_);
    has_server_ = false;
    judged_.notify_all();
  };
  callbacks.on_deadline = [this] {
    std::shared_ptr<TcpChannel> successor;
    {
      std::lock_guard lock(mutex_);
      successor = successor_;
    }
    if (successor) successor->keep_alive(write_notice({}), HostServer::kAliveNs);
  };
  std::shared_ptr<TcpChannel> before;
  {
    std::lock_guard lock(mutex_);
    before = std::move(successor_);
  }
  if (before) before->close();
  std::lock_guard lock(mutex_);
  has_server_ = true;
  const Status opened =
      TcpChannel::open(std::move(socket), kMaxNoticeBytes, std::move(callbacks), &successor_);
  has_server_ = opened.ok();
  if (opened.ok()) successor_->set_deadline(Deadline::after(HostServer::kAliveNs));
  return opened;
}

Status TcpHostSession::probe(const RegroupRequest& request, const std::vector<uint32_t>& members,
                             const Deadline& deadline) {
  for (const uint32_t member : members) {
    {
      std::lock_guard lock(mutex_);
      if (member == rank_ || failed_by_probe_.contains(member)) continue;
    }
    const Status connected = hub_->connect_server(member, request.context, deadline, nullptr);
    if (connected.code() != KEEL_RANK_FAILED) continue;
    if (request.confirm_end) KEEL_RETURN_IF_ERROR(request.confirm_end(member));
    std::lock_guard lock(mutex_);
    failed_by_probe_.insert(member);
    server_locked().send(
        write_notice({Notice::Kind::kLost, member,
                      keel::failure(KEEL_RANK_FAILED, "{} has ended: {}",
                                    table_.ranks[member].name(), connected.text())}));
  }
  return {};
}

Status TcpHostSession::probe_successor(const RegroupRequest& request, const Deadline& deadline) {
  uint32_t member = 0;
  {
    std::lock_guard lock(mutex_);
    member = *successor_rank_;
  }
  const Status connected = hub_->connect_server(member, request.context, deadline, nullptr);
  return connected.code() == KEEL_RANK_FAILED ? request.confirm_end(member) : Status();
}

// A rank whose port is open in this job takes part here: the server has left it out since it is
// absent or cut off. A rank that is still joining becomes one or the other.
Status TcpHostSession::check_left_out(const RegroupRequest& request,
                                      const std::vector<uint32_t>& members,
                                      const Deadline& deadline) {
  if (!request.confirm_end) return {};
  std::set<uint32_t> left;
  {
    std::lock_guard lock(mutex_);
    for (const uint32_t index : regroup_->left) {
      if (index < request.members.size()) left.insert(request.members[index]);
    }
  }
  for (const uint32_t member : members) {
    if (left.contains(member)) continue;
    auto presence = WireHub::Presence::kUnknown;
    while (presence == WireHub::Presence::kUnknown) {
      KEEL_RETURN_IF_ERROR(hub_->ask_presence(member, request.context, deadline, &presence));
      if (presence == WireHub::Presence::kGone) KEEL_RETURN_IF_ERROR(request.confirm_end(member));
      if (presence != WireHub::Presence::kUnknown) break;
      KEEL_RETURN_IF_ERROR(pause_until(deadline, table_.ranks[member]));
    }
  }
  return {};
}

Status TcpHostSession::find_present(uint32_t rank, uint64_t context, const Deadline& deadline) {
  while (true) {
    auto presence = WireHub::Presence::kUnknown;
    KEEL_RETURN_IF_ERROR(hub_->ask_presence(rank, context, deadline, &presence));
    if (presence == WireHub::Presence::kPresent) return {};
    if (presence == WireHub::Presence::kGone) {
      return keel::failure(KEEL_RANK_FAILED, "{} takes no part", table_.ranks[rank].name());
    }
    KEEL_RETURN_IF_ERROR(pause_until(deadline, table_.ranks[rank]));
  }
}

void TcpHostSession::finish(uint64_t context, const Status& refusal) {
  hub_->finish(context, refusal);
}

}  // namespace keel
