// SPDX-License-Identifier: Apache-2.0
// What the schedules share: a rank's passes in order, and the check of the sizes.
#ifndef KEEL_PARALLEL_PIPELINE_PASSES_H_
#define KEEL_PARALLEL_PIPELINE_PASSES_H_

#include <keel/parallel/schedule.hpp>
#include <utility>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// The passes of one rank, appended in order.
class Passes {
 public:
  explicit Passes(Gradients gradients) : gradients_(gradients) {}

  void forward(uint32_t stage, uint32_t micro_batch) { add(Task::kForward, stage, micro_batch); }
  // Both gradients, in one pass or two.
  void backward(uint32_t stage, uint32_t micro_batch) {
    if (gradients_ == Gradients::kTogether) return add(Task::kBackward, stage, micro_batch);
    add(Task::kBackwardData, stage, micro_batch);
    add(Task::kBackwardWeight, stage, micro_batch);
  }
  void add(Task task, uint32_t stage, uint32_t micro_batch) {
    actions_.push_back({task, stage, micro_batch});
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  Gradients gradients_;
  std::vector<Action> actions_;
};

// Throws Error(KEEL_INVALID_ARGUMENT), naming the number, if one of the numbers is 0.
void require_sizes(uint32_t ranks, uint32_t chunks, uint32_t micro_batches);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_PIPELINE_PASSES_H_
