// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B: each rank has several chunks of the model, so that the pipeline fills after
// shorter passes. Two ranks, two chunks each (the second in brackets), two micro-batches:
//
//   rank 0  0    1    [0]  [1]  .    .    [b0] -    .    [b1] -    b0   -    b1   -
//   rank 1  .    0    1    [0]  [b0] -    [1]  [b1] -    b0   -    b1   -
//
// Micro-batches pass in groups of |ranks|: a group goes through chunk 0, then through chunk 1, and
// backwards through the chunks in reverse. Idle: (ranks - 1) (F + B) / chunks, F and B of all of a
// rank's chunks, for |chunks| times the messages and more micro-batches in flight.
//
// Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", 2021, section 2.2.
#include <algorithm>
#include <keel/error.hpp>
#include <keel/parallel/schedule.hpp>

#include "parallel/pipeline/passes.h"

namespace keel::parallel {
inline namespace v0 {

PipelineSchedule interleaved(uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                             Gradients gradients) {
  require_sizes(ranks, chunks, micro_batches);
  if (ranks < 2 || micro_batches % ranks != 0) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "interleaved schedule: " + std::to_string(micro_batches) + " micro-batches for " +
                    std::to_string(ranks) +
                    " ranks; it takes 2 ranks or more, and a multiple of them");
  }
  PipelineSchedule schedule;
  schedule.name = gradients == Gradients::kApart ? "interleaved-apart" : "interleaved";
  schedule.ranks = ranks;
  schedule.chunks = chunks;
  schedule.micro_batches = micro_batches;
  const uint32_t total = chunks * micro_batches;
  const uint32_t group = ranks * chunks;
  // The i-th pass of a rank in either direction.
  const auto micro_batch = [&](uint32_t i) { return i / group * ranks + i % ranks; };
  const auto chunk = [&](uint32_t i) { return i % group / ranks; };
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t ahead = std::min((ranks - 1 - rank) * 2 + (chunks - 1) * ranks, total);
    Passes passes(gradients);
    const auto forward = [&](uint32_t i) {
      passes.forward(chunk(i) * ranks + rank, micro_batch(i));
    };
    const auto backward = [&](uint32_t i) {
      passes.backward((chunks - 1 - chunk(i)) * ranks + rank, micro_batch(i));
    };
    for (uint32_t i = 0; i < ahead; ++i) forward(i);
    for (uint32_t i = ahead; i < total; ++i) {
      forward(i);
      backward(i - ahead);
    }
    for (uint32_t i = total - ahead; i < total; ++i) backward(i);
    schedule.actions.push_back(passes.take());
    schedule.in_flight.push_back(std::min(ahead + 1, total));
  }
  const bool apart = gradients == Gradients::kApart;
  // |costs| are of one chunk.
  schedule.idle = [ranks, apart](const TaskCosts& costs) {
    return (ranks - 1) * (apart ? costs.forward + costs.backward_data : costs.all());
  };
  return schedule;
}

}  // namespace v0
}  // namespace keel::parallel
