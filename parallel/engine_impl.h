// SPDX-License-Identifier: Apache-2.0
// State of an engine, for its sources.
#ifndef KEEL_PARALLEL_ENGINE_IMPL_H_
#define KEEL_PARALLEL_ENGINE_IMPL_H_

#include <cstdint>
#include <keel/parallel/engine.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/optimizer.h"
#include "parallel/stage.h"

namespace keel::parallel {
inline namespace v0 {

struct Engine::Impl {
  explicit Impl(Stream& stream) : memory(stream) {}

  Memory memory;
  StepRecorder* recorder = nullptr;
  std::optional<Communicator> urgent_data, tied_comm;
  Channel data, urgent, tensor, pipeline, tied, world;
  std::vector<std::unique_ptr<TransformerStage>> stages;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  int64_t own_share = 1, first_share = 0;  // sequences of a micro-batch; those of ranks before
  Tensor figures;  // [4]: squares of divided, of whole parameters; then loss, squares, to be summed
  Tensor found;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_ENGINE_IMPL_H_
