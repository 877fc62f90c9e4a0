// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr StepBuffer kSend = StepBuffer::kSend;
constexpr StepBuffer kReceive = StepBuffer::kReceive;
constexpr StepBuffer kWork = StepBuffer::kWork;

}  // namespace

// Before the step of |distance| a rank has |distance| pieces: its own and the pieces of the next
// ranks. Pieces lie at the final places, so no rotation follows.
void plan_bruck_all_gather(const RankPosition& place, StepPlan* plan) {
  const uint32_t world = place.world;
  plan->reads_receive = world > 2;
  plan->copy(kReceive, place.rank, {place.rank, kSend, 0}).is_own = true;
  for (uint64_t distance = 1; distance < world; distance *= 2) {
    const auto peer = static_cast<uint32_t>((place.rank + distance) % world);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(distance, world - distance));
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t piece = (peer + i) % world;
      plan->copy(kReceive, piece,
                 i == 0 ? StepSource{peer, kSend, 0} : StepSource{peer, kReceive, piece});
    }
    plan->end_step();
  }
}

// A piece moves on by |way| ranks, in steps of the powers of two in |way|, smallest first. At every
// stop the piece lies in one half of the scratch, chosen by the number of stops, since the previous
// piece may still be read.
void plan_bruck_all_to_all(const RankPosition& place, StepPlan* plan) {
  const uint32_t world = place.world;
  plan->work_parts = world > 3 ? 2 * world : 0;
  plan->copy(kReceive, place.rank, {place.rank, kSend, place.rank}).is_own = true;
  for (uint64_t distance = 1; distance < world; distance *= 2) {
    const uint32_t from = place.minus(static_cast<uint32_t>(distance));
    for (uint32_t way = 1; way < world; ++way) {
      if ((way & distance) == 0) continue;
      const auto stops = static_cast<uint32_t>(std::popcount(way & (distance - 1)));
      const StepSource source = stops == 0 ? StepSource{from, kSend, (from + way) % world}
                                           : StepSource{from, kWork, (stops - 1) % 2 * world + way};
      const bool is_there = way < 2 * distance;
      plan->copy(is_there ? kReceive : kWork, is_there ? place.minus(way) : stops % 2 * world + way,
                 source);
    }
    plan->end_step();
  }
}

void plan_pairwise_all_to_all(const RankPosition& place, StepPlan* plan) {
  plan->copy(kReceive, place.rank, {place.rank, kSend, place.rank}).is_own = true;
  for (uint32_t distance = 1; distance < place.world; ++distance) {
    const uint32_t peer = place.minus(distance);
    plan->copy(kReceive, peer, {peer, kSend, place.rank});
    plan->end_step();
  }
}

}  // namespace keel
