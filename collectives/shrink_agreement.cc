// SPDX-License-Identifier: Apache-2.0
#include "collectives/shrink_agreement.h"

#include <algorithm>

namespace keel {

namespace {

// Rounds are counted in 32 bits; a larger number is no number that a rank wrote.
constexpr uint64_t kMostRounds = UINT32_MAX - 2;

}  // namespace

Status ShrinkAgreement::vote(uint32_t flags) {
  ShrinkSlot& own = slot(rank_);
  while (true) {
    const uint64_t stage = slots_.stage().load();
    uint32_t before = own.vote.load();
    if (before == ShrinkSlot::kOut) {
      return failure(KEEL_FAILED_PRECONDITION,
                     "the other ranks took rank {} for failed and went on without it", rank_);
    }
    if ((stage & 1) != 0) {
      return failure(KEEL_FAILED_PRECONDITION, "the communicator was shrunk before");
    }
    if (stage / 2 >= kMostRounds) {
      return {KEEL_DATA_LOSS, "the communicator's memory holds an impossible round of a shrink"};
    }
    round_ = static_cast<uint32_t>(stage / 2) + 1;
    own.flags.store(flags, std::memory_order_relaxed);
    // Another rank may leave this one out at this very moment: the first of the two counts.
    if (before < round_ && !own.vote.compare_exchange_strong(before, round_)) continue;
    if (slots_.stage().load() == stage) return {};
  }
}

bool ShrinkAgreement::has_voted(uint32_t rank) const {
  const uint32_t vote = slot(rank).vote.load();
  return vote >= round_ && vote != ShrinkSlot::kOut;
}

bool ShrinkAgreement::is_out(uint32_t rank) const {
  return slot(rank).vote.load() == ShrinkSlot::kOut;
}

uint32_t ShrinkAgreement::flags(uint32_t rank) const {
  return slot(rank).flags.load(std::memory_order_relaxed);
}

ShrinkAgreement::Votes ShrinkAgreement::poll_votes(bool leaves_out_absent,
                                                   std::vector<uint32_t>* out_members) {
  std::vector<uint32_t> members;
  bool is_decided = true;
  for (uint32_t rank = 0; rank < slots_.world(); ++rank) {
    uint32_t vote = slot(rank).vote.load();
    while (vote < round_ && (leaves_out_absent || is_gone_(rank))) {
      // Only while the round is open: a rank that was too late for it may be in the next.
      if (outcome() != Outcome::kOpen) return Votes::kAbandoned;
      if (slot(rank).vote.compare_exchange_strong(vote, ShrinkSlot::kOut)) {
        vote = ShrinkSlot::kOut;
      }
    }
    if (vote == ShrinkSlot::kOut) continue;
    if (vote >= round_) {
      members.push_back(rank);
    } else {
      is_decided = false;
    }
  }
  // Words that were read while the round was open are decisions of this round.
  if (outcome() != Outcome::kOpen) return Votes::kAbandoned;
  if (!is_decided) return Votes::kOpen;
  // Data in the segment may be overwritten by others; this rank is in.
  if (!std::binary_search(members.begin(), members.end(), rank_)) return Votes::kAbandoned;
  *out_members = std::move(members);
  return Votes::kDecided;
}

void ShrinkAgreement::offer(const ObjectId& segment) {
  ShrinkSlot& own = slot(rank_);
  own.device.store(segment.device, std::memory_order_relaxed);
  own.inode.store(segment.inode, std::memory_order_relaxed);
  own.offered.store(round_);
}

bool ShrinkAgreement::find_offer(uint32_t member, ObjectId* out_segment) const {
  if (slot(member).offered.load() != round_) return false;
  *out_segment = {slot(member).device.load(std::memory_order_relaxed),
                  slot(member).inode.load(std::memory_order_relaxed)};
  return true;
}

void ShrinkAgreement::enter() {
  slot(rank_).entered.store(round_);
}

bool ShrinkAgreement::has_entered(uint32_t rank) const {
  return slot(rank).entered.load() == round_;
}

ShrinkAgreement::Outcome ShrinkAgreement::outcome() const {
  const uint64_t stage = slots_.stage().load();
  if (stage == open_stage()) return Outcome::kOpen;
  return stage == open_stage() + 1 ? Outcome::kCommitted : Outcome::kAbandoned;
}

ShrinkAgreement::Outcome ShrinkAgreement::poll_entered(const std::vector<uint32_t>& members) {
  bool all_entered = true;
  for (const uint32_t member : members) {
    if (is_gone_(member)) return abandon();
    all_entered = all_entered && has_entered(member);
  }
  if (all_entered) {
    uint64_t expected = open_stage();
    slots_.stage().compare_exchange_strong(expected, open_stage() + 1);
  }
  return outcome();
}

ShrinkAgreement::Outcome ShrinkAgreement::abandon() {
  uint64_t expected = open_stage();
  slots_.stage().compare_exchange_strong(expected, open_stage() + 2);
  return outcome();
}

ShrinkAgreement::Outcome ShrinkAgreement::step_out() {
  const Outcome reached = abandon();
  if (reached != Outcome::kCommitted) slot(rank_).vote.store(ShrinkSlot::kOut);
  return reached;
}

}  // namespace keel
