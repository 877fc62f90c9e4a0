// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_shrink.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/insiders.h"

namespace keel {

HostShrink::HostShrink(std::shared_ptr<HostJob> job, uint64_t context,
                       std::vector<uint32_t> members) {
  Level& first = levels_.emplace_back();
  first.job = std::move(job);
  first.context = context;
  first.old_ranks.resize(members.size());
  std::iota(first.old_ranks.begin(), first.old_ranks.end(), 0u);
  first.members = std::move(members);
}

HostShrink::~HostShrink() {
  // Peers that are still there need not wait for this rank.
  if (!is_finished_) mark_finished({KEEL_RANK_FAILED, "the rank has left the communicator"});
  while (!levels_.empty()) levels_.pop_back();
}

const PeerInfo& HostShrink::self() const {
  const HostJob& job = *levels_.front().job;
  return job.table().ranks[levels_.front().job->session().rank()].peer;
}

Status HostShrink::agree(int64_t absent_ns, const Deadline& deadline) {
  while (true) {
    Level& top = levels_.back();
    std::optional<size_t> below;
    HostSession::RegroupRequest request = {top.context, top.members, absent_ns, {}};
    if (levels_.size() > 1) {
      request.confirm_end = [&](uint32_t member) -> Status {
        KEEL_RETURN_IF_ERROR(find_below(member, deadline, &below));
        return below ? Status(KEEL_ABORTED, "a rank has not joined this job") : Status();
      };
    }
    const Status status = top.job->session().regroup(request, deadline, &place_);
    if (!below) return status;
    // From the top, so that no level is closed while a higher one is open.
    while (levels_.size() > *below + 1) levels_.pop_back();
    if (deadline.is_cut_off()) return insiders::cut_off();
    if (deadline.passed()) return {KEEL_TIMED_OUT, "a rank that is left has not joined in time"};
  }
}

Status HostShrink::join(PeerInfo self, const std::string& facts, const Deadline& deadline) {
  self.rank = place_.rank;
  std::unique_ptr<HostSession> session;
  KEEL_RETURN_IF_ERROR(HostSession::join(place_.id, self, static_cast<uint32_t>(place_.left.size()),
                                         facts, deadline, &session));
  Level next;
  next.job = std::make_shared<HostJob>(std::move(session));
  for (const uint32_t index : place_.left) {
    next.old_ranks.push_back(levels_.back().old_ranks[index]);
    next.members.push_back(static_cast<uint32_t>(next.members.size()));
  }
  levels_.back().had_failed = has_failed(levels_.back());
  levels_.push_back(std::move(next));
  return {};
}

bool HostShrink::has_failed(const Level& level) {
  const HostSession& session = level.job->session();
  const std::vector<uint32_t> failed = session.failed_ranks();
  return std::binary_search(failed.begin(), failed.end(), session.rank());
}

Status HostShrink::find_below(uint32_t member, const Deadline& deadline,
                              std::optional<size_t>* out_level) const {
  const uint32_t old_rank = levels_.back().old_ranks[member];
  for (size_t level = levels_.size() - 1; level-- > 0;) {
    const Level& each = levels_[level];
    const auto place = std::lower_bound(each.old_ranks.begin(), each.old_ranks.end(), old_rank) -
                       each.old_ranks.begin();
    const Status present =
        each.job->session().find_present(each.members[place], each.context, deadline);
    if (present.ok()) {
      *out_level = level;
      return {};
    }
    if (present.code() != KEEL_RANK_FAILED) return present;
    // |member| may have gone on from there, after this rank did not call in time.
    if (has_failed(each) && !each.had_failed) {
      return {KEEL_FAILED_PRECONDITION, "the other ranks took this rank for failed"};
    }
  }
  return {};
}

void HostShrink::mark_finished(const Status& refusal) {
  for (size_t level = 0; level + 1 < levels_.size(); ++level) {
    levels_[level].job->session().finish(levels_[level].context, refusal);
  }
}

void HostShrink::finish() {
  is_finished_ = true;
  mark_finished({KEEL_FAILED_PRECONDITION, "the other ranks have gone on without this rank"});
  while (!levels_.empty()) levels_.pop_back();
}

}  // namespace keel
