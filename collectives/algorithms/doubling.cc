// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr StepBuffer kSend = StepBuffer::kSend;
constexpr StepBuffer kReceive = StepBuffer::kReceive;
constexpr StepBuffer kWork = StepBuffer::kWork;

}  // namespace

// Two ranks read each other's sum while both compute the next sum, so sums alternate between the
// parts of the scratch and go to the receive buffer last: in place, all readers have read it by
// then. All ranks compute the same sums of the same sums in the same order.
void plan_doubling_all_reduce(const RankPosition& place, StepPlan* plan) {
  const Folded folded(place.world);
  const uint32_t rank = place.rank;
  const auto levels = static_cast<uint32_t>(std::countr_zero(folded.core));
  plan->work_parts = 2;
  plan->reads_receive = folded.extras != 0 && levels > 1;
  if (folded.extras != 0) {
    if (folded.has_extra(rank)) {
      plan->reduce(kWork, 1, {rank, kSend, 0}, {folded.extra_of(rank), kSend, 0});
    }
    plan->end_step();
  }
  // Location of a rank's sum before the level.
  const auto sum_of = [&](uint32_t other, uint32_t level) -> StepSource {
    if (level != 0) return {other, kWork, (level - 1) % 2};
    return folded.has_extra(other) ? StepSource{other, kWork, 1} : StepSource{other, kSend, 0};
  };
  for (uint32_t level = 0; level < levels; ++level) {
    const bool is_last = level + 1 == levels;
    const bool is_result = is_last && level != 0;
    if (!folded.is_extra(rank)) {
      const uint32_t partner = rank ^ (1u << level);
      plan->reduce(is_result ? kReceive : kWork, is_result ? 0 : level % 2,
                   sum_of(std::min(rank, partner), level), sum_of(std::max(rank, partner), level))
          .is_last = is_last;
    }
    plan->end_step();
  }
  const StepBuffer result = levels == 1 ? kWork : kReceive;
  if (folded.is_extra(rank)) {
    plan->copy(kReceive, 0, {folded.keeper_of(rank), result, 0});
  } else if (levels == 1) {
    plan->copy(kReceive, 0, {rank, kWork, 0});
  }
  if (folded.extras != 0 || levels == 1) plan->end_step();
}

void plan_doubling_all_gather(const RankPosition& place, StepPlan* plan) {
  const Folded folded(place.world);
  const uint32_t rank = place.rank;
  plan->reads_receive = place.world > 2;
  plan->copy(kReceive, rank, {rank, kSend, 0}).is_own = true;
  if (folded.extras != 0) {
    if (folded.has_extra(rank)) {
      const uint32_t extra = folded.extra_of(rank);
      plan->copy(kReceive, extra, {extra, kSend, 0});
    }
    plan->end_step();
  }
  for (uint32_t distance = 1; distance < folded.core; distance *= 2) {
    const uint32_t partner = rank ^ distance;
    const uint32_t first = partner / distance * distance;
    for (uint32_t piece = first; piece < first + distance && !folded.is_extra(rank); ++piece) {
      plan->copy(
          kReceive, piece,
          piece == partner ? StepSource{partner, kSend, 0} : StepSource{partner, kReceive, piece});
      if (!folded.has_extra(piece)) continue;
      const uint32_t extra = folded.extra_of(piece);
      plan->copy(kReceive, extra, {partner, kReceive, extra});
    }
    plan->end_step();
  }
  if (folded.extras == 0) return;
  for (uint32_t piece = 0; piece < place.world && folded.is_extra(rank); ++piece) {
    const uint32_t keeper = folded.keeper_of(rank);
    if (piece == rank) continue;
    plan->copy(
        kReceive, piece,
        piece == keeper ? StepSource{keeper, kSend, 0} : StepSource{keeper, kReceive, piece});
  }
  plan->end_step();
}

}  // namespace keel
