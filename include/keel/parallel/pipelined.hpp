// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules for Engine.
//
//   Engine engine(mesh, settings, pipelined("zero-bubble", mesh, settings));
#ifndef KEEL_PARALLEL_PIPELINED_HPP_
#define KEEL_PARALLEL_PIPELINED_HPP_

#include <keel/parallel/engine.hpp>
#include <keel/parallel/pipeline.hpp>
#include <memory>
#include <string>

namespace keel::parallel {
inline namespace v0 {

// Runs a PipelineSchedule on the stages of an engine. One a rank: the first step makes the links
// between the ranks, for which all ranks of axis pp must run it.
class PipelinedSchedule : public Schedule {
 public:
  explicit PipelinedSchedule(PipelineSchedule schedule) : schedule_(std::move(schedule)) {}

  std::string name() const override { return schedule_.name; }
  int64_t chunks() const override { return schedule_.chunks; }
  double bubble(int64_t /*ranks*/, int64_t /*micro_batches*/) const override {
    return schedule_.bubble();
  }
  uint64_t operations() const override {
    return pipeline_ == nullptr ? 0 : pipeline_->operations();
  }
  void run(Run& run) override;
  const PipelineSchedule& schedule() const { return schedule_; }

 private:
  PipelineSchedule schedule_;
  std::unique_ptr<Pipeline> pipeline_;
};

// The schedule |name| (see make_schedule) for axis pp of |mesh| and the micro-batches of
// |settings|. Throws Error(KEEL_INVALID_ARGUMENT) for sizes that the schedule does not take.
std::shared_ptr<PipelinedSchedule> pipelined(const std::string& name, const Mesh& mesh,
                                             const Settings& settings, uint32_t chunks = 1);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_PIPELINED_HPP_
