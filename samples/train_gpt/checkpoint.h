// SPDX-License-Identifier: Apache-2.0
// Checkpoints: files with the complete state of a training, from which training can resume.
#ifndef KEEL_SAMPLES_TRAIN_GPT_CHECKPOINT_H_
#define KEEL_SAMPLES_TRAIN_GPT_CHECKPOINT_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/settings.h"

namespace train_gpt {

// Everything the next step depends on. Float vectors are flat, in the layout's order.
struct TrainingState {
  int64_t step = 0;           // steps done
  int64_t next_sequence = 0;  // position in the data
  uint64_t seed = 0;          // with the position, the whole random state: see Corpus::sequences
  uint64_t text = 0;          // fingerprint of the text that next_sequence refers to
  // Settings and number of devices of the training so far; unset in files written before these were
  // stored.
  std::optional<TrainingSettings> settings;
  int64_t devices = 0;
  std::vector<float> values, first_moment, second_moment;
};

// Replaces the file |path| as a whole; see write_safetensors. Throws FileError, as does
// load_checkpoint.
void save_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                     const TrainingState& state);
// For saves that a later save will repeat: on failure the old file remains, stderr gets the reason,
// and false is returned.
bool try_save_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                         const TrainingState& state);
// Throws for checkpoints of other models than |layout|'s.
TrainingState load_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_CHECKPOINT_H_
