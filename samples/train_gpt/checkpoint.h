// SPDX-License-Identifier: Apache-2.0
// Trainings that stop and go on: all there is of one in a file.
#ifndef KEEL_SAMPLES_TRAIN_GPT_CHECKPOINT_H_
#define KEEL_SAMPLES_TRAIN_GPT_CHECKPOINT_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/settings.h"

namespace train_gpt {

// What the next step depends on. Floats are flat, as
// the layout has them.
struct TrainingState {
  int64_t step = 0;           // steps done
  int64_t next_sequence = 0;  // the position in the data
  uint64_t seed = 0;          // with the position, the whole random state: see Corpus::sequences
  uint64_t text = 0;          // the fingerprint of the text that the position is one of
  // How it was trained until then, on as many devices; none in files of before these were kept.
  std::optional<TrainingSettings> settings;
  int64_t devices = 0;
  std::vector<float> values, first_moment, second_moment;
};

// Replaces |path| as a whole; see write_safetensors. Throws FileError, as load_checkpoint does.
void save_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                     const TrainingState& state);
// For a save that others follow: where it fails, the old file stays, stderr says why, and false is
// returned.
bool try_save_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                         const TrainingState& state);
// Refuses checkpoints of other models than |layout|'s.
TrainingState load_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_CHECKPOINT_H_
