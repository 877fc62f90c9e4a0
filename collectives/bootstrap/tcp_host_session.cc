// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_host_session.h"

#include <algorithm>
#include <utility>

#include "collectives/bootstrap/host_server.h"
#include "collectives/bootstrap/rank_list.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/transports/tcp/tcp_wires.h"
#include "collectives/transports/ucx/ucx_wires.h"
#include "collectives/transports/wire_choice.h"
#include "core/insiders.h"

namespace keel {

namespace {

// How long report() waits for the server's verdict: a silent peer is judged by the kernel within
// this time too.
constexpr int64_t kVerdictNs = 2'000'000'000;
// Without a server, how long report() waits for another rank's explanation. Ranks that find the
// same failure wait so much longer the higher their rank is: the lowest one tells the others.
constexpr int64_t kExplainNs = 250'000'000;
constexpr int64_t kExplainStepNs = 2'000'000;
constexpr uint32_t kMostExplainSteps = 100;
// Time between two looks for ranks that have not connected, and the limit of a look.
constexpr int64_t kLookForNs = 250'000'000;
constexpr int64_t kLookLimitNs = 500'000'000;
// How long leave() waits for a server that does not answer, and the end for ranks to be told.
constexpr int64_t kLeaveNs = 1'000'000'000;

}  // namespace

TcpHostSession::TcpHostSession(std::shared_ptr<WireHub> hub, std::shared_ptr<const HostTable> table,
                               const ProcessToken& server, uint32_t rank)
    : hub_(std::move(hub)),
      shared_table_(std::move(table)),
      table_(*shared_table_),
      server_(server),
      rank_(rank) {}

Status TcpHostSession::open(FileDescriptor socket, std::shared_ptr<WireHub> hub,
                            std::shared_ptr<const HostTable> table, const ProcessToken& server,
                            uint32_t rank, std::unique_ptr<HostSession>* out_session) {
  auto link = std::make_unique<TcpHostSession>(std::move(hub), std::move(table), server, rank);
  TcpHostSession* const self = link.get();  // the destructor closes the channel first
  TcpChannel::Callbacks callbacks;
  callbacks.on_message = [self](ByteView message) { self->on_message(message); };
  callbacks.on_end = [self](const Status& why) { self->on_end(why); };
  callbacks.on_deadline = [self] { self->on_deadline(); };
  std::shared_ptr<TcpChannel> channel;
  {
    // Callbacks use |channel_| only under the lock.
    std::lock_guard lock(link->mutex_);
    KEEL_RETURN_IF_ERROR(
        TcpChannel::open(std::move(socket), kMaxNoticeBytes, std::move(callbacks), &channel));
    link->channel_ = channel;
  }
  channel->set_deadline(Deadline::after(HostServer::kAliveNs));
  self->hub_->set_on_notice([self](const Notice& notice) { self->on_notice(notice); });
  *out_session = std::move(link);
  return {};
}

TcpHostSession::~TcpHostSession() {
  leave();
  if (channel_) channel_->close();
  if (successor_) successor_->close();
  if (notices_) {
    if (!ServiceThread::get().is_current()) notices_->wait(Deadline::after(kLeaveNs));
    notices_->close();
  }
  hub_->close();
}

Status TcpHostSession::open_wires(uint64_t context, std::unique_ptr<WireSet>* out_wires) {
  if (is_ucx(table_.ranks[rank_].wire)) return UcxWires::open(hub_, context, out_wires);
  return TcpWires::open(hub_, context, out_wires);
}

void TcpHostSession::on_message(ByteView message) {
  Regroup regroup;
  if (parse_regroup(message, &regroup).ok()) {
    std::lock_guard lock(mutex_);
    regroup_ = regroup;
    judged_.notify_all();
    return;
  }
  Notice notice;
  const Status parsed = parse_notice(message, &notice);
  if (!parsed.ok()) {
    judge(parsed.with_prefix("from the server: "));
    return;
  }
  on_notice(notice);
}

void TcpHostSession::on_notice(const Notice& notice) {
  if (notice.rank >= table_.ranks.size()) return;
  switch (notice.kind) {
    case Notice::Kind::kAbort:
    case Notice::Kind::kFailed: {
      {
        std::lock_guard lock(mutex_);
        if (notice.kind == Notice::Kind::kFailed) failed_.insert(notice.rank);
        untold_.reset();  // all ranks have this one
      }
      if (!notice.status.ok()) judge(notice.status);
      return;
    }
    case Notice::Kind::kLeft: {
      std::lock_guard lock(mutex_);
      left_.insert(notice.rank);
      return;
    }
    case Notice::Kind::kRegroup: {
      std::lock_guard lock(mutex_);
      regroup_failure_ = notice.status;
      judged_.notify_all();
      return;
    }
    case Notice::Kind::kReady: {
      std::lock_guard lock(mutex_);
      is_committed_ = true;
      judged_.notify_all();
      return;
    }
    case Notice::Kind::kAlive:
    case Notice::Kind::kLost:
      return;
  }
}

void TcpHostSession::on_end(const Status& why) {
  std::vector<uint32_t> serving;
  bool have_left = true;
  {
    std::lock_guard lock(mutex_);
    has_server_ = false;
    judged_.notify_all();
    if (has_left_ && !untold_) return;
    for (const HostRank& each : table_.ranks) {
      if (each.peer.process != server_) continue;
      serving.push_back(each.peer.rank);
      have_left = have_left && left_.contains(each.peer.rank);
    }
    // The serving process may end after its ranks have: the ranks then tell each other who fails.
    have_left = have_left && !serving.empty();
    if (!have_left) failed_.insert(serving.begin(), serving.end());
  }
  if (have_left) {
    tell_peers();
    return;
  }
  judge(keel::failure(KEEL_RANK_FAILED, "{} has failed: its link to rank {}: {}",
                      server_name(serving), rank_, why.text()));
}

std::string TcpHostSession::server_name(const std::vector<uint32_t>& ranks) const {
  if (ranks.empty()) return "the process that serves the job";
  return ranks.size() == 1 ? table_.ranks[ranks[0]].name()
                           : fmt::format("the process of {} on host '{}'", rank_list(ranks),
                                         table_.ranks[ranks[0]].host_name);
}

void TcpHostSession::on_deadline() {
  std::shared_ptr<TcpChannel> channel;
  {
    std::lock_guard lock(mutex_);
    channel = channel_;
  }
  channel->keep_alive(write_notice({}), HostServer::kAliveNs);
}

void TcpHostSession::judge(const Status& verdict, const std::optional<Notice>& own) {
  bool has_server = true;
  {
    std::lock_guard lock(mutex_);
    if (!verdict_.ok() || has_left_) return;
    verdict_ = verdict;
    untold_ = own;
    has_server = has_server_;
  }
  if (!has_server) tell_peers();
  judged_.notify_all();
  hub_->fail(verdict);
  std::lock_guard lock(callback_mutex_);
  const auto on_failure = std::exchange(on_failure_, {});
  if (on_failure) on_failure(verdict);
}

void TcpHostSession::tell_peers() {
  std::lock_guard lock(mutex_);
  if (!untold_ || notices_) return;
  std::vector<uint32_t> peers;
  for (uint32_t rank = 0; rank < table_.ranks.size(); ++rank) {
    if (rank != rank_ && !left_.contains(rank) && !failed_.contains(rank)) peers.push_back(rank);
  }
  notices_ = NoticeSender::start(hub_, *untold_, std::move(peers));
}

bool TcpHostSession::has_outlived_server() const {
  std::lock_guard lock(mutex_);
  return !has_server_ && verdict_.ok();
}

void TcpHostSession::look_for(const std::vector<uint32_t>& peers) {
  {
    std::lock_guard lock(mutex_);
    if (has_server_ || !verdict_.ok() || (next_look_ && !next_look_->passed())) return;
    next_look_ = Deadline::after(kLookForNs);
  }
  std::set<uint32_t> missed;
  for (const uint32_t peer : peers) {
    const Status found =
        hub_->connect_server(peer, /*context=*/0, Deadline::after(kLookLimitNs), nullptr);
    if (found.code() != KEEL_RANK_FAILED) continue;
    missed.insert(peer);
    {
      std::lock_guard lock(mutex_);
      // A rank may have connected, sent and left between the caller's look and this one.
      if (!missed_.contains(peer)) continue;
      failed_.insert(peer);
    }
    const Status why =
        keel::failure(KEEL_RANK_FAILED, "{} has ended, and {} waits for it: {}",
                      table_.ranks[peer].name(), table_.ranks[rank_].name(), found.text());
    judge(why, Notice{Notice::Kind::kFailed, peer, why});
    return;
  }
  std::lock_guard lock(mutex_);
  missed_ = std::move(missed);
}

void TcpHostSession::abort(const Status& why) {
  const Notice notice = {Notice::Kind::kAbort, rank_, why};
  {
    std::lock_guard lock(mutex_);
    server_locked().send(write_notice(notice));
  }
  judge(why, notice);
}

Status TcpHostSession::report(uint32_t peer, const Status& why) {
  const Deadline deadline = Deadline::after(kVerdictNs);
  {
    std::unique_lock lock(mutex_);
    server_locked().send(write_notice({Notice::Kind::kLost, peer, why}));
    deadline.wait(judged_, lock, [this] { return !verdict_.ok() || !has_server_; });
    // No server any more: this rank tells the others, unless one of them knows better.
    const int64_t steps = std::min(rank_, kMostExplainSteps);
    if (verdict_.ok() && !has_server_) {
      Deadline::after(kExplainNs + steps * kExplainStepNs).wait(judged_, lock, [this] {
        return !verdict_.ok();
      });
    }
    if (!verdict_.ok()) return verdict_;
    failed_.insert(peer);
  }
  judge(why, Notice{Notice::Kind::kFailed, peer, why});
  return failure();
}

Status TcpHostSession::failure() const {
  std::lock_guard lock(mutex_);
  return verdict_;
}

std::vector<uint32_t> TcpHostSession::failed_ranks() const {
  std::lock_guard lock(mutex_);
  return {failed_.begin(), failed_.end()};
}

void TcpHostSession::set_on_failure(std::function<void(const Status&)> on_failure) {
  std::lock_guard lock(callback_mutex_);
  const Status verdict = failure();
  if (on_failure && !verdict.ok()) {
    on_failure(verdict);
    return;
  }
  on_failure_ = std::move(on_failure);
}

Status TcpHostSession::commit(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  server_locked().send(write_notice({Notice::Kind::kReady, rank_, {}}));
  deadline.wait(judged_, lock, [this] { return is_committed_ || !verdict_.ok() || !has_server_; });
  if (is_committed_) return {};
  if (!verdict_.ok()) return verdict_;
  if (!has_server_) return {KEEL_UNAVAILABLE, "the process that serves the job has ended"};
  if (deadline.is_cut_off()) return {KEEL_ABORTED, insiders::kCutOff};
  return {KEEL_TIMED_OUT, "a rank of the new job was not ready in time"};
}

void TcpHostSession::leave() {
  {
    std::lock_guard lock(mutex_);
    if (has_left_) return;
    has_left_ = true;
  }
  if (!channel_) return;
  {
    std::lock_guard lock(mutex_);
    server_locked().send(write_notice({Notice::Kind::kLeft, rank_, {}}));
  }
  // The server closes the connection once it has told the others. Without the wait the process
  // that serves could end before it has, which would look like its failure.
  if (ServiceThread::get().is_current()) return;
  std::unique_lock lock(mutex_);
  Deadline::after(kLeaveNs).wait(judged_, lock, [this] { return !has_server_; });
}

}  // namespace keel
