// SPDX-License-Identifier: Apache-2.0
// Pipeline parallelism: runs a schedule on the stages of a model, one rank's part.
//
//   Pipeline pipeline(&mesh.axis("pp"), zero_bubble(4, 8), {&stage});
//   pipeline.step({.load = load, .scale = 1.0 / tokens});
//
// Activations and their gradients travel by sends and receives of |axis|. Ranks may be chips of
// different makes: a message between two of them passes through the host.
#ifndef KEEL_PARALLEL_PIPELINE_HPP_
#define KEEL_PARALLEL_PIPELINE_HPP_

#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <keel/parallel/model.hpp>
#include <keel/parallel/schedule.hpp>
#include <keel/parallel/timeline.hpp>
#include <memory>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

struct PipelineStep {
  using OnSlot = std::function<void(Stage& stage, size_t slot, uint32_t micro_batch)>;
  // Calls Stage::set_batch; before each forward pass, on every stage.
  OnSlot load = {};
  // Called behind each forward pass of the last stage, while Stage::losses is valid. Enqueues only.
  OnSlot after_loss = {};
  // Called for each message that this rank sends.
  std::function<void(uint64_t bytes)> on_send = {};
  std::function<void()> on_receive = {};  // for each message that this rank receives
  // Called when the last gradient of a rank's chunk has been enqueued, for work that overlaps with
  // the rest of the step, such as an all_reduce of the chunk's gradients. Enqueues only.
  std::function<void(uint32_t chunk)> after_chunk = {};
  double scale = 1;                  // see Stage::backward_data
  StepRecorder* recorder = nullptr;  // optional
  uint32_t group = 0;                // of the messages, for Span::group
};

// One rank of a pipeline. Not thread-safe. Enqueues and never waits, except in the constructor; a
// failure of a rank reaches the others through their streams.
class Pipeline {
 public:
  // |axis|: as many ranks as the schedule, borrowed for the constructor; NULL for one rank.
  // |stages|: borrowed, this rank's chunks in order. Every rank constructs; waits for all. Throws
  // Error(KEEL_INVALID_ARGUMENT) for a schedule that check() refuses, a wrong number of ranks or
  // stages, or a first or last stage in a wrong place.
  Pipeline(Communicator* axis, PipelineSchedule schedule, std::vector<Stage*> stages);
  // Waits for this rank's messages; aborts them while an exception ends the caller's scope.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Slots of Stage that the rank's chunk |chunk| uses: one more than its micro-batches in flight
  // where a receive is posted ahead.
  static size_t slots(const PipelineSchedule& schedule, uint32_t rank, uint32_t chunk);

  const PipelineSchedule& schedule() const { return schedule_; }
  uint32_t rank() const { return rank_; }
  uint64_t operations() const;  // messages of this rank so far, as libkeel counts

  // Enqueues one step: all passes of this rank, on the streams of its stages. After a failure in
  // this rank's calls, aborts the pipeline's messages, so that no other rank waits, and rethrows;
  // an allocation failure names stage, micro-batch and pass.
  void step(const PipelineStep& step);

 private:
  struct State;
  struct Chunk;

  void run(size_t index, const PipelineStep& step);
  void post_receives(size_t index, const PipelineStep& step);
  void forward(const Action& action, const PipelineStep& step);
  void backward_data(const Action& action, const PipelineStep& step, SpanKind kind, bool is_whole);
  void backward_weight(const Action& action, const PipelineStep& step);

  PipelineSchedule schedule_;
  uint32_t rank_ = 0;
  std::vector<Stage*> stages_;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_PIPELINE_HPP_
