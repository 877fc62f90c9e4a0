// SPDX-License-Identifier: Apache-2.0
// Agreement of a communicator's ranks on one host on who goes on after a failure.
#ifndef KEEL_COLLECTIVES_SHRINK_AGREEMENT_H_
#define KEEL_COLLECTIVES_SHRINK_AGREEMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/shrink_slots.h"
#include "core/status.h"

namespace keel {

// Two phases, repeated until one round passes both:
//
//               each rank is in or out             all members have entered
//    VOTING(r) ------------------------> ENTERING(r) ------------------> COMMITTED
//       |                                    |
//       |  a caller gives up                 |  a member ends, leaves, is absent or gives up
//       +----------------+-------------------+
//                        v
//                   VOTING(r + 1)
//
// Phase one decides about each rank: the rank writes that it is in, or any other rank that it is
// out, by compare-and-swap on one word. Phase two decides about the round, by compare-and-swap on
// one word too: committed or abandoned. The words lie in the control segment of the failed
// communicator, which survives every process but the last. All callers therefore read the same
// decisions, whoever ends at whichever step, and nobody coordinates.
//
// Being left out is final: the word never changes again, so a rank that was taken for ended finds
// it and is refused. The order of events makes the member list of a round unique: ranks are taken
// out for round r + 1 only after round r was abandoned, and a rank that read such a word can no
// longer commit round r.
//
// After: Bland, Bouteiller, Herault, Bosilca, Dongarra, "Post-failure recovery of MPI communication
// capability" (2013), shrink as an agreement on the failed ranks and a new communicator; Herault
// and others, "Practical scalable consensus for pseudo-synchronous distributed systems" (2015), its
// two phases. Shared memory takes the place of their messages and trees.
class ShrinkAgreement {
 public:
  // |is_gone|(rank): whether |rank| has ended, or left the communicator in order.
  ShrinkAgreement(ShrinkSlots& slots, uint32_t rank, std::function<bool(uint32_t)> is_gone)
      : slots_(slots), rank_(rank), is_gone_(std::move(is_gone)) {}

  // Puts this rank into the current round, with |flags| of its PeerInfo. KEEL_FAILED_PRECONDITION
  // if the others have left this rank out, or a round is committed.
  Status vote(uint32_t flags);
  // Round of the last vote(), from 1.
  uint32_t round() const { return round_; }

  enum class Votes { kOpen, kDecided, kAbandoned };
  // Leaves out ranks that are gone, and, with |leaves_out_absent|, ranks that have not voted. When
  // all ranks are decided, sets |*out_members|, ascending.
  Votes poll_votes(bool leaves_out_absent, std::vector<uint32_t>* out_members);
  bool has_voted(uint32_t rank) const;
  bool is_out(uint32_t rank) const;
  uint32_t flags(uint32_t rank) const;

  // The segment of the new communicator, made by one member and fetched by the others.
  void offer(const ObjectId& segment);
  bool find_offer(uint32_t member, ObjectId* out_segment) const;

  // This rank has entered the new communicator.
  void enter();
  bool has_entered(uint32_t rank) const;

  enum class Outcome { kOpen, kCommitted, kAbandoned };
  Outcome outcome() const;
  // Commits the round if every member has entered, and abandons the round if a member is gone.
  Outcome poll_entered(const std::vector<uint32_t>& members);
  // Abandons the round unless it is committed.
  Outcome abandon();
  // Abandons the round and leaves this rank out of all further ones, unless it is committed.
  Outcome step_out();

 private:
  ShrinkSlot& slot(uint32_t rank) const { return slots_.slot(rank); }
  uint64_t open_stage() const { return uint64_t{round_ - 1} * 2; }

  ShrinkSlots& slots_;
  const uint32_t rank_;
  const std::function<bool(uint32_t)> is_gone_;
  uint32_t round_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SHRINK_AGREEMENT_H_
