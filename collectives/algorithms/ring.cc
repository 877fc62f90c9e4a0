// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr StepBuffer kSend = StepBuffer::kSend;
constexpr StepBuffer kReceive = StepBuffer::kReceive;
constexpr StepBuffer kWork = StepBuffer::kWork;

}  // namespace

void plan_ring_all_reduce(const RankPosition& place, StepPlan* plan) {
  const uint32_t world = place.world;
  plan->shares = world;
  plan->reads_receive = true;
  // The sum of share c begins at rank c and is complete n - 1 ranks further.
  for (uint32_t step = 0; step + 1 < world; ++step) {
    const uint32_t share = place.minus(step + 1);
    StepAction& action = plan->reduce(kReceive, 0, {place.left(), step == 0 ? kSend : kReceive, 0},
                                      {place.rank, kSend, 0});
    action.first_share = share;
    action.end_share = share + 1;
    action.is_last = step + 2 == world;
    plan->end_step();
  }
  for (uint32_t step = 0; step + 1 < world; ++step) {
    const uint32_t share = place.minus(step);
    StepAction& action = plan->copy(kReceive, 0, {place.left(), kReceive, 0});
    action.first_share = share;
    action.end_share = share + 1;
    plan->end_step();
  }
}

void plan_ring_all_gather(const RankPosition& place, StepPlan* plan) {
  plan->reads_receive = true;
  plan->copy(kReceive, place.rank, {place.rank, kSend, 0}).is_own = true;
  for (uint32_t step = 0; step + 1 < place.world; ++step) {
    const uint32_t piece = place.minus(step + 1);
    // The left rank's own piece is in its send buffer.
    const StepSource source =
        step == 0 ? StepSource{place.left(), kSend, 0} : StepSource{place.left(), kReceive, piece};
    plan->copy(kReceive, piece, source);
    plan->end_step();
  }
}

void plan_ring_reduce_scatter(const RankPosition& place, StepPlan* plan) {
  const uint32_t world = place.world;
  // A partial sum is read in the step after its own.
  plan->work_parts = std::min(2u, world - 2);
  for (uint32_t step = 0; step + 1 < world; ++step) {
    const uint32_t piece = place.minus(step + 2);
    const bool is_last = step + 2 == world;
    const StepSource partial = step == 0 ? StepSource{place.left(), kSend, piece}
                                         : StepSource{place.left(), kWork, (step - 1) % 2};
    StepAction& action = plan->reduce(is_last ? kReceive : kWork, is_last ? 0 : step % 2, partial,
                                      {place.rank, kSend, piece});
    action.is_last = is_last;
    plan->end_step();
  }
}

}  // namespace keel
