// SPDX-License-Identifier: Apache-2.0
// Plans of the work of each rank in each step: one function per algorithm and collective.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_STEP_PLANS_H_
#define KEEL_COLLECTIVES_ALGORITHMS_STEP_PLANS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "collectives/algorithms/steps.h"

namespace keel {

// The rank of a plan. |world| is at least 2.
struct RankPosition {
  uint32_t rank;
  uint32_t world;
  uint32_t root;

  uint32_t left() const { return (rank + world - 1) % world; }
  uint32_t minus(uint32_t distance) const { return (rank + world - distance % world) % world; }
};

// Recursive doubling and halving need a power of two of ranks. Each remaining rank, an extra, is
// folded into a core rank before, and receives the result from the core rank afterwards.
struct Folded {
  explicit Folded(uint32_t world) : core(std::bit_floor(world)), extras(world - core) {}

  bool is_extra(uint32_t rank) const { return rank >= core; }
  bool has_extra(uint32_t rank) const { return rank < extras; }
  uint32_t extra_of(uint32_t rank) const { return core + rank; }
  uint32_t keeper_of(uint32_t extra) const { return extra - core; }

  uint32_t core;
  uint32_t extras;
};

// Rings: n - 1 steps per half; each rank reads from the left neighbour only.
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms (2009).
void plan_ring_all_reduce(const RankPosition& place, StepPlan* plan);
void plan_ring_all_gather(const RankPosition& place, StepPlan* plan);
void plan_ring_reduce_scatter(const RankPosition& place, StepPlan* plan);

// Recursive doubling: log2 n steps with all data present.
// Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in
// MPICH (2005).
void plan_doubling_all_reduce(const RankPosition& place, StepPlan* plan);
void plan_doubling_all_gather(const RankPosition& place, StepPlan* plan);

// Recursive halving: log2 n steps, each with half as much data as the step before; an all_reduce
// goes the same way back, doubling.
// Source: Rabenseifner, Optimization of collective reduction operations (2004).
void plan_halving_all_reduce(const RankPosition& place, StepPlan* plan);
void plan_halving_reduce_scatter(const RankPosition& place, StepPlan* plan);

// Trees: the ranks with the data, or with the task to collect data, serve |radix| - 1 ranks per
// level; radix 2 is the binomial tree.
// Source: MPICH's binomial trees (Thakur and others, 2005), and its k-nomial trees.
void plan_tree_broadcast(const RankPosition& place, uint32_t radix, StepPlan* plan);
void plan_tree_reduce(const RankPosition& place, uint32_t radix, StepPlan* plan);
void plan_tree_gather(const RankPosition& place, uint32_t radix, StepPlan* plan);
void plan_tree_scatter(const RankPosition& place, uint32_t radix, StepPlan* plan);

// Log2 n steps for any n; forwarded pieces move from buffer to buffer.
// Source: Bruck and others, Efficient algorithms for all-to-all communications in multiport
// message-passing systems (1997).
void plan_bruck_all_gather(const RankPosition& place, StepPlan* plan);
void plan_bruck_all_to_all(const RankPosition& place, StepPlan* plan);

// N - 1 steps, and in each every rank reads from one rank and is read by one rank.
// Source: Thakur and others (2005).
void plan_pairwise_all_to_all(const RankPosition& place, StepPlan* plan);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_STEP_PLANS_H_
