// SPDX-License-Identifier: Apache-2.0
// keel_comm_shrink: the ranks that are left of a failed communicator form a new one.
#include <algorithm>
#include <chrono>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/communicator.h"
#include "collectives/hosts/host_entry.h"
#include "collectives/shrink_agreement.h"
#include "collectives/shrink_step.h"
#include "core/insiders.h"

namespace keel {

namespace {

// Pause between two looks at the agreement: a shrink takes tens of milliseconds anyway.
constexpr auto kPause = std::chrono::microseconds(500);
// How long a failure may precede the notice of the end that caused it.
constexpr int64_t kNoticeNs = 2'000'000'000;

// Whether the end of another rank may be the cause, so that the ranks that are left agree again.
bool may_pass(const Status& status) {
  switch (status.code()) {
    case KEEL_RANK_FAILED:
    case KEEL_TIMED_OUT:
    case KEEL_ABORTED:
    case KEEL_UNAVAILABLE:
    case KEEL_NOT_FOUND:
      return true;
    default:
      return false;
  }
}

// The published segment of a new communicator, withdrawn at the end of the scope.
class Publication {
 public:
  Publication() = default;
  ~Publication() {
    if (is_published_) MemHandleServer::get().withdraw(id_);
  }
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;

  Status publish(FileDescriptor file) {
    KEEL_RETURN_IF_ERROR(MemHandleServer::get().publish(std::move(file), &id_));
    is_published_ = true;
    return {};
  }
  const ObjectId& id() const { return id_; }

 private:
  ObjectId id_;
  bool is_published_ = false;
};

}  // namespace

Deadline Communicator::ShrinkCall::step() const {
  if (absent_ns == 0) return deadline;
  return insiders::deadline(std::min(absent_ns, deadline.remaining_ns()));
}

Status Communicator::shrink(const ShrinkCall& call, const CommunicatorOptions& options,
                            Ref<Communicator>* out_left) {
  if (is_shrinking_.exchange(true)) {
    return failure(KEEL_FAILED_PRECONDITION, "another thread shrinks the communicator");
  }
  const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> turn(
      &is_shrinking_, [](std::atomic<bool>* flag) { flag->store(false); });
  // Operations in flight fail on all ranks, those of ranks that have not noticed a failure too.
  const Status failed = async_error();
  abort(failed.ok() ? failure(KEEL_ABORTED, "rank {} called keel_comm_shrink", rank()) : failed);
  KEEL_RETURN_IF_ERROR(end_operations(call.deadline));
  reach(ShrinkStep::kEnded);
  CommunicatorOptions wanted = options;
  wanted.urgent = team().is_urgent();
  if (hosts_ && !host_shrink_) {
    const HostGroup& group = hosts_->group();
    host_shrink_ =
        std::make_unique<HostShrink>(group.shared_job(), group.context(), group.members());
  }
  return host_shrink_ ? shrink_hosts(call, wanted, out_left)
                      : shrink_inside(call, wanted, out_left);
}

Status Communicator::end_operations(const Deadline& deadline) {
  KEEL_RETURN_IF_ERROR(finish(deadline));
  // An operation within another thread's call, or the rest of one that was over for its stream.
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (!running_) break;
    }
    if (deadline.is_cut_off()) return insiders::cut_off();
    if (deadline.passed()) {
      return failure(KEEL_TIMED_OUT, "the communicator's operations did not end in time");
    }
    std::this_thread::sleep_for(kPause);
  }
  team().await_acts();
  return {};
}

// ---- on one host ----------------------------------------------------------------

// One rank in one round of ShrinkAgreement.
class ShrinkRound {
 public:
  enum class End { kMade, kAgain, kFailed };

  ShrinkRound(Communicator& parent, ShrinkAgreement& agreement,
              const Communicator::ShrinkCall& call, const CommunicatorOptions& options)
      : parent_(parent), agreement_(agreement), call_(call), options_(options) {}

  // |*out_status|: for kFailed.
  End run(Ref<Communicator>* out_left, Status* out_status);

 private:
  End vote(Status* out_status);
  Status make();
  Status fetch_segment(FileDescriptor* out_segment);
  End commit(Status* out_status);
  // Ends the round, since this rank gives up at |why|.
  End give_up(const Status& why, Status* out_status);
  bool is_gone(uint32_t rank) const {
    return parent_.team().has_ended(rank) || parent_.team().segment().failures().has_left(rank);
  }
  Status late(const std::string& ranks, const char* what) const;

  Communicator& parent_;
  ShrinkAgreement& agreement_;
  const Communicator::ShrinkCall& call_;
  const CommunicatorOptions& options_;
  std::vector<uint32_t> members_;
  Publication publication_;
  Ref<Communicator> made_;
};

ShrinkRound::End ShrinkRound::run(Ref<Communicator>* out_left, Status* out_status) {
  const End voted = vote(out_status);
  if (voted != End::kMade) return voted;
  reach(ShrinkStep::kAgreed);
  Status entered;
  try {
    entered = make();
  } catch (const std::bad_alloc& error) {
    entered = Status::no_memory(error);
  }
  if (!entered.ok()) return give_up(entered, out_status);
  reach(ShrinkStep::kEntered);
  agreement_.enter();
  const End end = commit(out_status);
  if (end == End::kMade) {
    made_->lineage_ = {parent_.lineage_.epoch + 1, members_};
    *out_left = std::move(made_);
  } else {
    made_->abort(failure(KEEL_ABORTED, "the new communicator was given up"));
  }
  return end;
}

Status ShrinkRound::late(const std::string& ranks, const char* what) const {
  if (call_.deadline.is_cut_off()) return insiders::cut_off();
  return failure(KEEL_TIMED_OUT, "{} did not {} in time", ranks, what);
}

ShrinkRound::End ShrinkRound::vote(Status* out_status) {
  const Deadline step = call_.step();
  while (true) {
    const bool leaves_out_absent = call_.absent_ns != 0 && step.passed();
    switch (agreement_.poll_votes(leaves_out_absent, &members_)) {
      case ShrinkAgreement::Votes::kDecided:
        return End::kMade;
      case ShrinkAgreement::Votes::kAbandoned:
        return End::kAgain;
      case ShrinkAgreement::Votes::kOpen:
        break;
    }
    if (call_.deadline.passed()) {
      const std::string missing = parent_.team().name_ranks(
          [&](uint32_t rank) { return !agreement_.has_voted(rank) && !agreement_.is_out(rank); });
      // This rank does not wait for the round any more, so the round cannot be committed.
      agreement_.abandon();
      *out_status = late(missing, "call keel_comm_shrink");
      return End::kFailed;
    }
    std::this_thread::sleep_for(kPause);
  }
}

Status ShrinkRound::fetch_segment(FileDescriptor* out_segment) {
  const uint32_t leader = members_.front();
  const Deadline step = call_.step();
  ObjectId id;
  while (!agreement_.find_offer(leader, &id)) {
    if (agreement_.poll_entered(members_) != ShrinkAgreement::Outcome::kOpen) {
      return {KEEL_RANK_FAILED, "a rank failed while the ranks agreed"};
    }
    if (step.passed()) return late(parent_.team().name(leader), "make the new communicator");
    std::this_thread::sleep_for(kPause);
  }
  if (parent_.team().is_here(leader)) return MemHandleServer::get().open(id, out_segment);
  const auto is_given_up = [&] {
    return agreement_.outcome() != ShrinkAgreement::Outcome::kOpen || is_gone(leader) ||
           insiders::are_cut_off();
  };
  return fetch_object(parent_.team().peer_info(leader).process, id, step, is_given_up, out_segment)
      .with_prefix("the memory that " + parent_.team().name(leader) + " made: ");
}

Status ShrinkRound::make() {
  Rendezvous rendezvous;
  uint32_t new_rank = 0;
  for (const uint32_t member : members_) {
    PeerInfo& peer_info = rendezvous.peer_infos.emplace_back(parent_.team().peer_info(member));
    peer_info.rank = static_cast<uint32_t>(rendezvous.peer_infos.size()) - 1;
    peer_info.flags = (peer_info.flags & ~Team::kOfACommunicator) |
                      (agreement_.flags(member) & Team::kNative) |
                      (options_.urgent ? Team::kUrgent : 0);
    if (member == parent_.local_rank()) new_rank = peer_info.rank;
  }
  if (members_.front() == parent_.local_rank()) {
    FileDescriptor file;
    KEEL_RETURN_IF_ERROR(Team::make_segment(rendezvous.peer_infos, &file));
    KEEL_RETURN_IF_ERROR(publication_.publish(std::move(file)));
    KEEL_RETURN_IF_ERROR(MemHandleServer::get().open(publication_.id(), &rendezvous.segment));
    agreement_.offer(publication_.id());
    reach(ShrinkStep::kOffered);
  } else {
    KEEL_RETURN_IF_ERROR(fetch_segment(&rendezvous.segment));
  }
  std::shared_ptr<Team> team;
  KEEL_RETURN_IF_ERROR(Team::join(rendezvous, new_rank, &team));
  return Communicator::enter(std::move(team), new_rank, parent_.device(), options_, call_.step(),
                             &made_)
      .with_prefix("the new communicator: ");
}

ShrinkRound::End ShrinkRound::commit(Status* out_status) {
  const Deadline step = call_.step();
  while (true) {
    ShrinkAgreement::Outcome outcome = agreement_.poll_entered(members_);
    const bool is_late = outcome == ShrinkAgreement::Outcome::kOpen && step.passed();
    if (is_late) outcome = agreement_.abandon();
    if (outcome == ShrinkAgreement::Outcome::kCommitted) return End::kMade;
    if (is_late && call_.deadline.passed()) {
      *out_status = late(parent_.team().name_ranks([&](uint32_t rank) {
        return std::binary_search(members_.begin(), members_.end(), rank) &&
               !agreement_.has_entered(rank);
      }),
                         "enter the new communicator");
      return End::kFailed;
    }
    if (outcome == ShrinkAgreement::Outcome::kAbandoned) return End::kAgain;
    std::this_thread::sleep_for(kPause);
  }
}

ShrinkRound::End ShrinkRound::give_up(const Status& why, Status* out_status) {
  *out_status = why;
  if (may_pass(why)) {
    const int64_t longest = why.code() == KEEL_TIMED_OUT ? 0 : kNoticeNs;
    // The watch of the failed communicator's processes may report the cause later than the new one.
    const Deadline notice = insiders::deadline(std::min(longest, call_.deadline.remaining_ns()));
    while (agreement_.poll_entered(members_) == ShrinkAgreement::Outcome::kOpen &&
           !notice.passed()) {
      std::this_thread::sleep_for(kPause);
    }
    agreement_.abandon();
    return call_.deadline.passed() ? End::kFailed : End::kAgain;
  }
  // The others go on without this rank.
  agreement_.step_out();
  return End::kFailed;
}

Status Communicator::shrink_inside(const ShrinkCall& call, const CommunicatorOptions& options,
                                   Ref<Communicator>* out_left) {
  Team& team = this->team();
  ShrinkAgreement agreement(team.segment().shrink(), local_rank(), [&team](uint32_t rank) {
    return team.has_ended(rank) || team.segment().failures().has_left(rank);
  });
  // A round without a result costs a rank or the deadline, unless ranks fail for another reason.
  const uint32_t most_rounds = 2 * world() + 8;
  Status status;
  for (uint32_t rounds = 0; rounds < most_rounds; ++rounds) {
    KEEL_RETURN_IF_ERROR(agreement.vote(options.flags(*device_)));
    reach(ShrinkStep::kVoted);
    ShrinkRound round(*this, agreement, call, options);
    switch (round.run(out_left, &status)) {
      case ShrinkRound::End::kMade:
        return {};
      case ShrinkRound::End::kFailed:
        return status;
      case ShrinkRound::End::kAgain:
        break;
    }
  }
  agreement.abandon();
  return failure(KEEL_RANK_FAILED, "the ranks that are left could not agree: {}", status.text());
}

// ---- between hosts --------------------------------------------------------------

// The server of the job decides both phases: which ranks are left (HostSession::regroup), and
// whether all of them are in the new communicator (HostSession::commit). HostShrink keeps the ranks
// together when a server ends amid a decision.
Status Communicator::shrink_hosts(const ShrinkCall& call, const CommunicatorOptions& options,
                                  Ref<Communicator>* out_left) {
  HostShrink& shrink = *host_shrink_;
  if (shrink.is_finished()) {
    return failure(KEEL_FAILED_PRECONDITION, "the communicator was shrunk before");
  }
  PeerInfo self = shrink.self();
  self.flags = (self.flags & ~Team::kOfACommunicator) | options.flags(*device_);
  const uint32_t most_rounds = 2 * world() + 8;
  Status status;
  for (uint32_t rounds = 0; rounds < most_rounds; ++rounds) {
    KEEL_RETURN_IF_ERROR(shrink.agree(call.absent_ns, call.deadline));
    reach(ShrinkStep::kAgreed);
    status = shrink.join(self, options.agreement().write(), call.step());
    if (status.ok()) {
      reach(ShrinkStep::kJoined);
      status = enter_final(call, options, out_left);
      if (status.ok()) return {};
    }
    if (!may_pass(status) || call.deadline.passed()) return status;
  }
  return failure(KEEL_RANK_FAILED, "the ranks that are left could not agree: {}", status.text());
}

Status Communicator::enter_final(const ShrinkCall& call, const CommunicatorOptions& options,
                                 Ref<Communicator>* out_left) {
  const std::shared_ptr<HostJob> job = host_shrink_->job();
  Ref<Communicator> made;
  Status status = enter_met(job, options, call.step(), &made);
  if (status.ok()) {
    reach(ShrinkStep::kEntered);
    status = job->session().commit(call.step());
  }
  if (!status.ok()) {
    if (made) made->abort(status);
    job->session().abort(status);
    return status;
  }
  made->lineage_ = {job->table().epoch, host_shrink_->old_ranks()};
  host_shrink_->finish();
  *out_left = std::move(made);
  return {};
}

Status Communicator::enter_met(const std::shared_ptr<HostJob>& job,
                               const CommunicatorOptions& options, const Deadline& deadline,
                               Ref<Communicator>* out_made) {
  std::unique_ptr<HostGroup> group;
  KEEL_RETURN_IF_ERROR(enter_job(job, deadline, &group));
  KEEL_RETURN_IF_ERROR(enter_hosts(std::move(group), device_, options, deadline, out_made));
  Communicator& made = **out_made;
  if (!made.hosts_) {
    // All ranks are on one host. Other ranks may not know yet that the group is final, and meet
    // this one in the job if it fails.
    std::vector<uint32_t> members(job->table().ranks.size());
    std::iota(members.begin(), members.end(), 0u);
    made.host_shrink_ = std::make_unique<HostShrink>(job, /*context=*/0, std::move(members));
  }
  return {};
}

}  // namespace keel
