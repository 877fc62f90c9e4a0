// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr StepBuffer kSend = StepBuffer::kSend;
constexpr StepBuffer kReceive = StepBuffer::kReceive;
constexpr StepBuffer kWork = StepBuffer::kWork;

}  // namespace

// A rank writes one half while the partner reads the second half, so sums may overwrite the
// operands, in place too.
void plan_halving_all_reduce(const RankPosition& place, StepPlan* plan) {
  const Folded folded(place.world);
  const uint32_t rank = place.rank;
  plan->shares = folded.core;
  plan->reads_receive = true;
  if (folded.extras != 0) {
    if (folded.has_extra(rank)) {
      plan->reduce(kReceive, 0, {rank, kSend, 0}, {folded.extra_of(rank), kSend, 0});
    }
    plan->end_step();
  }
  const auto sum_of = [&](uint32_t other, bool is_first) -> StepSource {
    return {other, is_first && !folded.has_extra(other) ? kSend : kReceive, 0};
  };
  for (uint32_t distance = folded.core / 2; distance != 0; distance /= 2) {
    if (!folded.is_extra(rank)) {
      const uint32_t partner = rank ^ distance;
      const bool is_first = distance == folded.core / 2;
      StepAction& action = plan->reduce(kReceive, 0, sum_of(std::min(rank, partner), is_first),
                                        sum_of(std::max(rank, partner), is_first));
      action.first_share = rank / distance * distance;
      action.end_share = action.first_share + distance;
      action.is_last = distance == 1;
    }
    plan->end_step();
  }
  for (uint32_t distance = 1; distance < folded.core; distance *= 2) {
    if (!folded.is_extra(rank)) {
      const uint32_t partner = rank ^ distance;
      StepAction& action = plan->copy(kReceive, 0, {partner, kReceive, 0});
      action.first_share = partner / distance * distance;
      action.end_share = action.first_share + distance;
    }
    plan->end_step();
  }
  if (folded.extras == 0) return;
  if (folded.is_extra(rank)) plan->copy(kReceive, 0, {folded.keeper_of(rank), kReceive, 0});
  plan->end_step();
}

void plan_halving_reduce_scatter(const RankPosition& place, StepPlan* plan) {
  const Folded folded(place.world);
  const uint32_t rank = place.rank;
  plan->work_parts = place.world == 2 ? 0 : place.world;
  if (folded.extras != 0) {
    for (uint32_t piece = 0; piece < place.world && folded.has_extra(rank); ++piece) {
      plan->reduce(kWork, piece, {rank, kSend, piece}, {folded.extra_of(rank), kSend, piece});
    }
    plan->end_step();
  }
  for (uint32_t distance = folded.core / 2; distance != 0; distance /= 2) {
    const uint32_t partner = rank ^ distance;
    const bool is_first = distance == folded.core / 2;
    const auto keep = [&](uint32_t piece) {
      const auto sum_of = [&](uint32_t other) -> StepSource {
        return {other, is_first && !folded.has_extra(other) ? kSend : kWork, piece};
      };
      const bool is_result = piece == rank && distance == 1;
      plan->reduce(is_result ? kReceive : kWork, is_result ? 0 : piece,
                   sum_of(std::min(rank, partner)), sum_of(std::max(rank, partner)))
          .is_last = distance == 1;
    };
    const uint32_t first = rank / distance * distance;
    for (uint32_t piece = first; piece < first + distance && !folded.is_extra(rank); ++piece) {
      keep(piece);
      if (folded.has_extra(piece)) keep(folded.extra_of(piece));
    }
    plan->end_step();
  }
  if (folded.extras == 0) return;
  if (folded.is_extra(rank)) plan->copy(kReceive, 0, {folded.keeper_of(rank), kWork, rank});
  plan->end_step();
}

}  // namespace keel
