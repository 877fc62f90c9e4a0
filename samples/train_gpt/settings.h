// SPDX-License-Identifier: Apache-2.0
// The settings of a training.
#ifndef KEEL_SAMPLES_TRAIN_GPT_SETTINGS_H_
#define KEEL_SAMPLES_TRAIN_GPT_SETTINGS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "samples/train_gpt/config.h"
#include "samples/train_gpt/optimizer.h"

namespace train_gpt {

struct TrainingSettings {
  int64_t steps = 1000;
  int64_t batch = 16;  // sequences, over all devices
  uint64_t seed = 1;
  Precision precision = Precision::kFloat32;
  OptimizerSettings optimizer;
};

// Convert to one line of JSON and back, without the seed. Keys are named like the command line's
// options where there is an option. settings_from_json throws std::runtime_error.
nlohmann::ordered_json json_of(const TrainingSettings& settings);
std::string to_json(const TrainingSettings& settings);
TrainingSettings settings_from_json(const std::string& text);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_SETTINGS_H_
