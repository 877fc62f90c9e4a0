// SPDX-License-Identifier: Apache-2.0
#include "collectives/deadlock_detector.h"

#include <fmt/format.h>

#include <algorithm>

namespace keel {

namespace {

constexpr uint32_t kNobody = UINT32_MAX;
// Ranks visited by one search: each visit reads the counters of all ranks.
constexpr size_t kMostLookedAt = 64;
constexpr uint32_t kMostDescribed = 8;

std::string describe_messages(const PointToPointProgress& progress, uint32_t messages) {
  const bool sends = progress.sends.load(std::memory_order_relaxed) != 0;
  const std::string first =
      fmt::format("{} {} {} rank {}", progress.count.load(std::memory_order_relaxed),
                  element_name(progress.dtype.load(std::memory_order_relaxed)),
                  sends ? "to" : "from", progress.peer.load(std::memory_order_relaxed));
  if (messages == 1) return fmt::format("{}({})", sends ? "send" : "recv", first);
  return fmt::format("send_recv({} messages, the first of {})", messages, first);
}

// Describes |rank|'s current operation; empty if none.
std::string describe_progress(ControlSegment& segment, uint32_t rank, uint64_t sequence) {
  Fingerprint call;
  const uint64_t shown = segment.board().shown_call(rank, &call);
  // The descriptors are of its parts inside the host.
  if (shown >= OperationBoard::kShownCollective) return describe(call);
  if (segment.board().has_published(rank, sequence)) {
    return describe(segment.board().descriptor(rank, sequence).fingerprint);
  }
  const PointToPointProgress& progress = segment.messages().progress(rank);
  const uint32_t messages = progress.messages.load(std::memory_order_acquire);
  if (messages != 0) return describe_messages(progress, messages);
  if (shown == OperationBoard::kShownMessages) return describe(call);
  if (shown == OperationBoard::kShownHeld) {
    return describe(call) + ", called behind work that its stream is not done with";
  }
  if (sequence == 0 || segment.board().is_done(rank, sequence - 1)) return "";
  if (!segment.board().has_published(rank, sequence - 1)) return "";
  // The rank has not completed the previous operation, called by all ranks.
  return describe(segment.board().descriptor(rank, sequence - 1).fingerprint);
}

}  // namespace

void end_messages(PointToPointSlots& messages, uint32_t rank) {
  PointToPointProgress& progress = messages.progress(rank);
  if (progress.messages.load(std::memory_order_relaxed) == 0) return;
  progress.messages.store(0, std::memory_order_release);
  progress.version.fetch_add(2, std::memory_order_release);
}

bool DeadlockDetector::waits_for(uint32_t rank, uint32_t other) const {
  if (has_published(rank)) return !has_published(other);
  if (!messages_.is_in_message(rank)) return false;
  // A rank without messages so far has begun none with |rank|: the pages of its counters need not
  // exist.
  const bool is_new = messages_.progress(other).version.load(std::memory_order_acquire) == 0;
  const ProgressCounters& own = messages_.counters(rank, other);
  const uint64_t sent = own.awaited_sends.load(std::memory_order_acquire);
  const uint64_t received = own.receives.load(std::memory_order_acquire);
  if (is_new || (sent == 0 && received == 0)) return sent != 0 || received != 0;
  const ProgressCounters& theirs = messages_.counters(other, rank);
  return sent > theirs.receives.load(std::memory_order_acquire) ||
         received > theirs.sends.load(std::memory_order_acquire);
}

bool DeadlockDetector::is_certain(const std::vector<uint32_t>& circle) const {
  std::vector<uint64_t> versions;
  for (const uint32_t rank : circle) {
    versions.push_back(messages_.progress(rank).version.load(std::memory_order_acquire));
    if (versions.back() % 2 != 0) return false;
  }
  for (size_t i = 0; i < circle.size(); ++i) {
    if (!waits_for(circle[i], circle[(i + 1) % circle.size()])) return false;
  }
  for (size_t i = 0; i < circle.size(); ++i) {
    const PointToPointProgress& progress = messages_.progress(circle[i]);
    if (progress.version.load(std::memory_order_acquire) != versions[i]) return false;
  }
  return true;
}

std::vector<uint32_t> DeadlockDetector::find() const {
  const uint32_t world = board_.world();
  std::vector<uint32_t> reached_from(world, kNobody);
  std::vector<uint32_t> reached = {rank_};
  for (size_t next = 0; next < reached.size(); ++next) {
    const uint32_t rank = reached[next];
    if (waits_for(rank, rank_)) {
      std::vector<uint32_t> circle;
      for (uint32_t at = rank; at != rank_; at = reached_from[at]) circle.push_back(at);
      circle.push_back(rank_);
      std::reverse(circle.begin(), circle.end());
      if (is_certain(circle)) return circle;
    }
    for (uint32_t other = 0; other < world && reached.size() < kMostLookedAt; ++other) {
      if (other == rank_ || reached_from[other] != kNobody || !waits_for(rank, other)) continue;
      reached_from[other] = rank;
      reached.push_back(other);
    }
  }
  return {};
}

bool DeadlockDetector::are_all_there() const {
  for (uint32_t rank = 0; rank < board_.world(); ++rank) {
    if (!has_published(rank) && !messages_.is_in_message(rank)) return false;
  }
  return true;
}

uint32_t DeadlockDetector::find_odd() const {
  uint32_t odd = kNobody;
  uint32_t usual = kNobody;
  for (uint32_t rank = 0; rank < board_.world(); ++rank) {
    if (!has_published(rank)) {
      if (odd != kNobody) return kNobody;
      odd = rank;
    } else if (usual == kNobody) {
      usual = rank;
    } else if (!(board_.descriptor(rank, sequence_).fingerprint ==
                 board_.descriptor(usual, sequence_).fingerprint)) {
      return kNobody;
    }
  }
  return board_.world() > 2 ? odd : kNobody;
}

Status DeadlockDetector::failure_of(const std::vector<uint32_t>& circle) const {
  const auto progress_of = [&](uint32_t rank) {
    return describe_progress(team_.segment(), rank, sequence_);
  };
  const uint32_t odd = find_odd();
  if (odd != kNobody) {
    return failure(KEEL_INVALID_ARGUMENT, "mismatch: {} called {}, all others {}", team_.name(odd),
                   progress_of(odd), progress_of(odd == 0 ? 1 : 0));
  }
  std::string text = "mismatch:";
  for (size_t i = 0; i < circle.size() && i < kMostDescribed; ++i) {
    text += fmt::format("{} {} called {}", i == 0 ? "" : ",", team_.name(circle[i]),
                        progress_of(circle[i]));
  }
  text += circle.size() == 1 ? ", and nothing that goes with it"
                             : ": each waits for the next, and the last for the first";
  return {KEEL_INVALID_ARGUMENT, text};
}

std::string describe_progress_of_all(Team& team, uint64_t sequence) {
  std::string text;
  for (uint32_t rank = 0; rank < team.world(); ++rank) {
    if (rank == kMostDescribed) {
      text += fmt::format(", and {} more", team.world() - rank);
      break;
    }
    const std::string progress = describe_progress(team.segment(), rank, sequence);
    text += fmt::format("{}rank {} {}at {}", rank == 0 ? "" : ", ", team.number(rank),
                        rank == 0 ? "is " : "", progress.empty() ? "nothing" : progress);
  }
  return text;
}

}  // namespace keel
