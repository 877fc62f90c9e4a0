// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr uint32_t kKnomialRadix = StepAction::kMostSources;

void make_tree(keel_collective collective, const RankPosition& place, uint32_t radix,
               StepPlan* plan) {
  switch (collective) {
    case KEEL_BROADCAST:
      return plan_tree_broadcast(place, radix, plan);
    case KEEL_REDUCE:
      return plan_tree_reduce(place, radix, plan);
    case KEEL_GATHER:
      return plan_tree_gather(place, radix, plan);
    default:
      return plan_tree_scatter(place, radix, plan);
  }
}

}  // namespace

void make_step_plan(const Request& request, uint32_t rank, uint32_t world, StepPlan* out_plan) {
  const RankPosition place = {rank, world, request.root};
  out_plan->clear();
  switch (request.algorithm) {
    case Algorithm::kRing:
      if (request.collective == KEEL_ALL_REDUCE) return plan_ring_all_reduce(place, out_plan);
      if (request.collective == KEEL_ALL_GATHER) return plan_ring_all_gather(place, out_plan);
      return plan_ring_reduce_scatter(place, out_plan);
    case Algorithm::kDoubling:
      if (request.collective == KEEL_ALL_REDUCE) return plan_doubling_all_reduce(place, out_plan);
      return plan_doubling_all_gather(place, out_plan);
    case Algorithm::kHalving:
      if (request.collective == KEEL_ALL_REDUCE) return plan_halving_all_reduce(place, out_plan);
      return plan_halving_reduce_scatter(place, out_plan);
    case Algorithm::kBinomial:
      return make_tree(request.collective, place, 2, out_plan);
    case Algorithm::kKnomial:
      return make_tree(request.collective, place, kKnomialRadix, out_plan);
    case Algorithm::kBruck:
      if (request.collective == KEEL_ALL_GATHER) return plan_bruck_all_gather(place, out_plan);
      return plan_bruck_all_to_all(place, out_plan);
    case Algorithm::kPairwise:
      return plan_pairwise_all_to_all(place, out_plan);
    default:
      return;
  }
}

}  // namespace keel
