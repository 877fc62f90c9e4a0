// SPDX-License-Identifier: Apache-2.0
#include <keel/parallel/pipelined.hpp>

namespace keel::parallel {
inline namespace v0 {

void PipelinedSchedule::run(Run& run) {
  if (run.micro_batches != schedule_.micro_batches) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "schedule " + schedule_.name + " is of " + std::to_string(schedule_.micro_batches) +
                    " micro-batches, the step of " + std::to_string(run.micro_batches));
  }
  if (pipeline_ == nullptr) {
    Communicator* const axis = run.pipeline.ranks() > 1 ? &run.pipeline.communicator() : nullptr;
    pipeline_ = std::make_unique<Pipeline>(axis, schedule_, run.stages);
  }
  pipeline_->step(
      {.load = [&](Stage& stage, size_t slot,
                   uint32_t micro_batch) { run.load(stage, slot, micro_batch); },
       .after_loss = [&](Stage& stage, size_t slot, uint32_t) { run.count_loss(stage, slot); },
       .on_send = [&](uint64_t bytes) { run.pipeline.count_sent(bytes); },
       .on_receive = [&] { run.pipeline.count_received(); },
       .scale = run.scale,
       .recorder = run.recorder,
       .group = run.group});
}

std::shared_ptr<PipelinedSchedule> pipelined(const std::string& name, const Mesh& mesh,
                                             const Settings& settings, uint32_t chunks) {
  return std::make_shared<PipelinedSchedule>(
      make_schedule(name, static_cast<uint32_t>(mesh.size_of("pp")), chunks,
                    static_cast<uint32_t>(settings.micro_batches)));
}

}  // namespace v0
}  // namespace keel::parallel
