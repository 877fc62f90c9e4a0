// SPDX-License-Identifier: Apache-2.0
// Zero-bubble schedule with the memory of 1F1B (ZB-H1): the gradients of input and weights are
// passes of their own. The next rank waits for the input's alone, and the weights' fill the gaps.
// Rank r postpones the weights' gradients of r micro-batches; every rank then holds |ranks|
// micro-batches at most, as rank 0 does in 1F1B. Three ranks, five micro-batches, equal passes:
//
//   rank 0  0  1  2  .  .  0d 0w 3  1d 1w 4  2d 2w 3d 3w 4d 4w
//   rank 1  .  0  1  .  0d 2  1d 0w 3  2d 1w 4  3d 2w 4d 3w 4w
//   rank 2  .  .  0  0d 1  1d 2  2d 0w 3  3d 1w 4  4d 2w 3w 4w
//
// n: forward; nd: gradient of the input; nw: gradients of the weights.
// Idle: (ranks - 1) (F + B_data - B_weight).
//
// Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 2.3.
#include <algorithm>
#include <keel/error.hpp>
#include <keel/parallel/schedule.hpp>

#include "parallel/pipeline/passes.h"

namespace keel::parallel {
inline namespace v0 {

PipelineSchedule zero_bubble(uint32_t ranks, uint32_t micro_batches) {
  require_sizes(ranks, 1, micro_batches);
  if (micro_batches < ranks) {
    throw Error(KEEL_INVALID_ARGUMENT, "zero-bubble schedule: " + std::to_string(micro_batches) +
                                           " micro-batches are fewer than the " +
                                           std::to_string(ranks) + " ranks");
  }
  PipelineSchedule schedule;
  schedule.name = "zero-bubble";
  schedule.ranks = ranks;
  schedule.micro_batches = micro_batches;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t ahead = ranks - 1 - rank;
    const uint32_t postponed = rank;
    Passes passes(Gradients::kApart);
    const auto backward = [&](uint32_t m) {
      passes.add(Task::kBackwardData, rank, m);
      if (m >= postponed) passes.add(Task::kBackwardWeight, rank, m - postponed);
    };
    for (uint32_t m = 0; m < ahead; ++m) passes.forward(rank, m);
    for (uint32_t m = ahead; m < micro_batches; ++m) {
      passes.forward(rank, m);
      backward(m - ahead);
    }
    for (uint32_t m = micro_batches - ahead; m < micro_batches; ++m) backward(m);
    for (uint32_t m = micro_batches - postponed; m < micro_batches; ++m) {
      passes.add(Task::kBackwardWeight, rank, m);
    }
    schedule.actions.push_back(passes.take());
    schedule.in_flight.push_back(ranks);
  }
  schedule.idle = [ranks](const TaskCosts& costs) {
    return (ranks - 1) * std::max(costs.forward + costs.backward_data - costs.backward_weight, 0.0);
  };
  return schedule;
}

}  // namespace v0
}  // namespace keel::parallel
