// SPDX-License-Identifier: Apache-2.0
#include <keel/parallel/engine.hpp>

namespace keel::parallel {
inline namespace v0 {

void FillDrainSchedule::run(Run& run) {
  Stage& stage = *run.stages.at(0);
  const Stream& stream = stage.stream();
  const int64_t count = stage.boundary_rows() * stage.boundary_columns();
  const int64_t here = run.pipeline.rank();
  // One micro-batch needs no slot but the first, which keeps activations of one alone.
  const bool alone = stage.is_first() && stage.is_last();
  const auto record = [&](SpanKind kind, int64_t micro_batch, const auto& enqueue) {
    parallel::record(run.recorder, stream,
                     {.kind = kind,
                      .stage = static_cast<uint32_t>(here),
                      .micro_batch = static_cast<uint32_t>(micro_batch),
                      .group = run.group},
                     enqueue);
  };
  const auto forward = [&](int64_t micro_batch, size_t slot) {
    run.load(stage, slot, micro_batch);
    if (!stage.is_first()) {
      record(SpanKind::kReceive, micro_batch,
             [&] { run.pipeline.recv(stage.input(slot).data, count, here - 1, stream); });
    }
    record(SpanKind::kForward, micro_batch, [&] { stage.forward(slot); });
    if (stage.is_last()) {
      run.count_loss(stage, slot);
    } else {
      record(SpanKind::kSend, micro_batch,
             [&] { run.pipeline.send(stage.output(slot).data, count, here + 1, stream); });
    }
  };
  const auto backward = [&](int64_t micro_batch, size_t slot) {
    if (!stage.is_last()) {
      record(SpanKind::kReceiveGradient, micro_batch,
             [&] { run.pipeline.recv(stage.output_gradient(slot).data, count, here + 1, stream); });
    }
    record(SpanKind::kBackward, micro_batch, [&] { stage.backward(slot, run.scale); });
    if (!stage.is_first()) {
      record(SpanKind::kSendGradient, micro_batch,
             [&] { run.pipeline.send(stage.input_gradient(slot).data, count, here - 1, stream); });
    }
    stage.discard(slot);
  };
  for (int64_t i = 0; i < run.micro_batches; ++i) {
    forward(i, alone ? 0 : static_cast<size_t>(i));
    if (alone) backward(i, 0);
  }
  for (int64_t i = 0; !alone && i < run.micro_batches; ++i) backward(i, static_cast<size_t>(i));
}

}  // namespace v0
}  // namespace keel::parallel
