// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: for each rank the order of its forward and backward passes.
//
//   PipelineSchedule schedule = one_f_one_b(/*ranks=*/4, /*micro_batches=*/8);
//   check(schedule);
//   Replay replay = keel::parallel::replay(schedule, TaskCosts{});   // replay.bubble: 0.2727
//
// Stage s of the model belongs to rank s % ranks. With one stage a rank, stages are ranks; the
// interleaved schedule gives each rank several stages, its chunks.
#ifndef KEEL_PARALLEL_SCHEDULE_HPP_
#define KEEL_PARALLEL_SCHEDULE_HPP_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

enum class Task : uint8_t {
  kForward,
  kBackward,        // both gradients; the input's is sent when both are done
  kBackwardData,    // the input's gradient, which the stage before waits for
  kBackwardWeight,  // the weights' gradients, which nobody waits for
};
const char* name_of(Task task);  // "forward"

// One pass of one micro-batch through one stage.
struct Action {
  Task task = Task::kForward;
  uint32_t stage = 0;  // of the model
  uint32_t micro_batch = 0;

  friend bool operator==(const Action&, const Action&) = default;
};
std::string text(const Action& action);  // "forward of micro-batch 3 in stage 1"

// Duration of the passes of one micro-batch through one stage, in any unit.
struct TaskCosts {
  double forward = 1;
  double backward_data = 1;
  double backward_weight = 1;

  double of(Task task) const;
  double all() const { return forward + backward_data + backward_weight; }
};

struct PipelineSchedule {
  std::string name;  // "1f1b"
  uint32_t ranks = 1;
  uint32_t chunks = 1;  // stages of a rank
  uint32_t micro_batches = 1;
  std::vector<std::vector<Action>> actions;  // by rank
  // By rank: the most micro-batches whose activations the rank holds at once, each chunk's counted,
  // from the forward pass until the weights' gradients.
  std::vector<uint32_t> in_flight;
  // Idle time of a rank in one step where all stages cost |costs|, transfers nothing.
  std::function<double(const TaskCosts& costs)> idle;

  uint32_t stages() const { return ranks * chunks; }
  uint32_t rank_of(uint32_t stage) const { return stage % ranks; }
  uint32_t chunk_of(uint32_t stage) const { return stage / ranks; }
  // Idle share of a step by the formula of the schedule's paper. |costs|: of each stage.
  double bubble(const TaskCosts& costs = {}) const;
};

// When a rank computes the weights' gradients of a micro-batch.
enum class Gradients {
  kTogether,  // one backward pass; the formulas of the papers hold
  kApart,     // the input's gradient is sent before the weights' gradients are computed
};

// Throws Error(KEEL_INVALID_ARGUMENT) for numbers of 0.
PipelineSchedule one_f_one_b(uint32_t ranks, uint32_t micro_batches,
                             Gradients gradients = Gradients::kTogether);
// Throws Error(KEEL_INVALID_ARGUMENT) also where |ranks| does not divide |micro_batches|, or
// |ranks| is 1.
PipelineSchedule interleaved(uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                             Gradients gradients = Gradients::kTogether);
// Throws Error(KEEL_INVALID_ARGUMENT) for numbers of 0, and for fewer micro-batches than ranks.
PipelineSchedule zero_bubble(uint32_t ranks, uint32_t micro_batches);
// The schedule |name|: "1f1b", "1f1b-apart", "interleaved", "interleaved-apart", "zero-bubble".
// Throws Error(KEEL_INVALID_ARGUMENT), listing the names, for any other name.
PipelineSchedule make_schedule(const std::string& name, uint32_t ranks, uint32_t chunks,
                               uint32_t micro_batches);

// Throws Error(KEEL_INVALID_ARGUMENT), naming rank and action, unless
//  - each rank has exactly the passes of its stages, each micro-batch once,
//  - the passes can run in this order: no rank waits for a pass that waits for the rank,
//  - messages between two ranks are received in the order in which they are sent,
//  - no rank holds more micro-batches than PipelineSchedule::in_flight,
//  - each stage adds its weights' gradients in the order of the micro-batches, so that the sum has
//    the bits of a run without a pipeline.
void check(const PipelineSchedule& schedule);

// A schedule played with given durations.
struct Replay {
  struct Pass {
    Action action;
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Pass>> passes;  // by rank
  double end = 0;                         // of the step
  double bubble = 0;                      // idle share of all ranks' time until |end|
};
using CostOf = std::function<double(const Action& action)>;
// |transfer|: from the end of a pass to the beginning of the pass on another rank that needs the
// result. Throws Error(KEEL_INVALID_ARGUMENT) for a schedule that cannot run.
Replay replay(const PipelineSchedule& schedule, const CostOf& cost, double transfer = 0);
Replay replay(const PipelineSchedule& schedule, const TaskCosts& costs, double transfer = 0);

// Divides |layers| among the stages in proportion to their |speeds|: no other division ends its
// slowest stage earlier. |extra|: by stage, additional work in layers, such as a model's head;
// empty for none. Each stage gets one layer at least. Throws Error(KEEL_INVALID_ARGUMENT) for fewer
// layers than stages, or a speed that is not above 0.
std::vector<int64_t> divide_layers(int64_t layers, std::span<const double> speeds,
                                   std::span<const double> extra = {});

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_SCHEDULE_HPP_
