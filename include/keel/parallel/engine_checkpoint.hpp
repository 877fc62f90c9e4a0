// SPDX-License-Identifier: Apache-2.0
// An engine's weights and moments as pieces of a checkpoint.
//
//   writer.save(step, checkpoint_pieces(engine), metadata, engine.stream());
//   ...
//   load_checkpoint(engine, Checkpoint::open("checkpoints"));   // on any mesh
#ifndef KEEL_PARALLEL_ENGINE_CHECKPOINT_HPP_
#define KEEL_PARALLEL_ENGINE_CHECKPOINT_HPP_

#include <keel/parallel/checkpoint.hpp>
#include <keel/parallel/engine.hpp>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// This rank's part of a checkpoint: NAME, NAME.first_moment and NAME.second_moment of each
// parameter. A tensor that several ranks hold is written by one of them. Valid until the engine's
// next step.
std::vector<TensorPiece> checkpoint_pieces(Engine& engine);
// Sets weights, moments and the number of steps. Every rank calls; waits. Throws the errors of
// Checkpoint::read, such as for a checkpoint of another model; the engine is then undefined.
void load_checkpoint(Engine& engine, const Checkpoint& checkpoint);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_ENGINE_CHECKPOINT_HPP_
