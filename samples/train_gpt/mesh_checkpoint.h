// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training with --mesh: sets of sharded files of keel/parallel/checkpoint.hpp,
// with this program's model and settings in their metadata.
#ifndef KEEL_SAMPLES_TRAIN_GPT_MESH_CHECKPOINT_H_
#define KEEL_SAMPLES_TRAIN_GPT_MESH_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <keel/parallel/checkpoint.hpp>
#include <vector>

#include "samples/train_gpt/checkpoint.h"
#include "samples/train_gpt/config.h"
#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/settings.h"

namespace train_gpt {

// |text|: fingerprint of the text; 0 with token files, whose loader has a state of its own.
keel::parallel::CheckpointMetadata mesh_metadata(const ModelConfig& model,
                                                 const TrainingSettings& settings, uint64_t text,
                                                 size_t devices);

// The latest set in |folder|, checked to be of this program and |model|: all of the state but
// weights and moments, and its metadata. Throws std::runtime_error, naming |folder|.
struct MeshState {
  TrainingState state;
  keel::parallel::CheckpointMetadata metadata;
};
MeshState read_mesh_state(const std::filesystem::path& folder, const ModelConfig& model);

// Weights of the latest set in |folder|, flat in the layout's order. Throws keel::Error.
std::vector<float> read_mesh_values(const std::filesystem::path& folder,
                                    const ParameterLayout& layout);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_MESH_CHECKPOINT_H_
