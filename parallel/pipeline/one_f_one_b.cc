// SPDX-License-Identifier: Apache-2.0
// 1F1B: after as many forward passes as fill the pipeline, each rank alternates one forward and one
// backward pass, so that rank r holds ranks - r micro-batches at most. Four ranks, six
// micro-batches, a backward pass of twice a forward pass:
//
//   rank 0  0  1  2  3  .  .  .  .  .  .  b0 -  4  b1 -  5  b2 -  .  b3 -  .  b4 -  .  b5 -
//   rank 1  .  0  1  2  .  .  .  .  b0 -  3  b1 -  4  b2 -  5  b3 -  .  b4 -  .  b5 -
//   rank 2  .  .  0  1  .  .  b0 -  2  b1 -  3  b2 -  4  b3 -  5  b4 -  .  b5 -
//   rank 3  .  .  .  0  b0 -  1  b1 -  2  b2 -  3  b3 -  4  b4 -  5  b5 -
//
// n: forward of micro-batch n; bn -: backward. Idle: (ranks - 1) (F + B).
//
// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021
// (PipeDream-Flush), section 3.2. With Gradients::kApart the input's gradient goes to the rank
// before as soon as it is known, and the idle time is (ranks - 1) (F + B_data).
#include <algorithm>
#include <keel/parallel/schedule.hpp>

#include "parallel/pipeline/passes.h"

namespace keel::parallel {
inline namespace v0 {

PipelineSchedule one_f_one_b(uint32_t ranks, uint32_t micro_batches, Gradients gradients) {
  require_sizes(ranks, 1, micro_batches);
  PipelineSchedule schedule;
  schedule.name = gradients == Gradients::kApart ? "1f1b-apart" : "1f1b";
  schedule.ranks = ranks;
  schedule.micro_batches = micro_batches;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t ahead = std::min(ranks - 1 - rank, micro_batches);
    Passes passes(gradients);
    for (uint32_t m = 0; m < ahead; ++m) passes.forward(rank, m);
    for (uint32_t m = ahead; m < micro_batches; ++m) {
      passes.forward(rank, m);
      passes.backward(rank, m - ahead);
    }
    for (uint32_t m = micro_batches - ahead; m < micro_batches; ++m) passes.backward(rank, m);
    schedule.actions.push_back(passes.take());
    schedule.in_flight.push_back(std::min(ranks - rank, micro_batches));
  }
  const bool apart = gradients == Gradients::kApart;
  schedule.idle = [ranks, apart](const TaskCosts& costs) {
    return (ranks - 1) * (apart ? costs.forward + costs.backward_data : costs.all());
  };
  return schedule;
}

}  // namespace v0
}  // namespace keel::parallel
