// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/settings.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_value.h"
#include "base/strict_json.h"

namespace train_gpt {
namespace {

using nlohmann::ordered_json;

template <typename Number>
Number within(const char* key, Number value, Number smallest, Number largest) {
  if (value >= smallest && value <= largest) return value;
  throw std::invalid_argument(std::string(key) + " " + std::to_string(value) + " is not from " +
                              std::to_string(smallest) + " to " + std::to_string(largest));
}

}  // namespace

ordered_json json_of(const TrainingSettings& settings) {
  const OptimizerSettings& optimizer = settings.optimizer;
  return {{"steps", settings.steps},
          {"batch", settings.batch},
          {"seed", settings.seed},
          {"precision", name(settings.precision)},
          {"learning_rate", optimizer.learning_rate},
          {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"epsilon", optimizer.epsilon},
          {"weight_decay", optimizer.weight_decay},
          {"clip", optimizer.clip},
          {"warmup", optimizer.warmup}};
}

std::string to_json(const TrainingSettings& settings) {
  return json_of(settings).dump();
}

TrainingSettings settings_from_json(const std::string& text) {
  constexpr int64_t kMostSteps = 1'000'000'000;
  constexpr int64_t kLargestBatch = 65536;
  nlohmann::json parsed;
  std::string wrong;
  if (!keel::parse_json(text, &parsed, &wrong)) {
    throw std::runtime_error("not a training's settings: " + wrong);
  }
  try {
    const keel::JsonValue json(parsed);
    const auto count = [&](const char* key, int64_t smallest, int64_t largest) {
      return within(key, json.at(key).integer(), smallest, largest);
    };
    const auto real = [&](const char* key, double largest) {
      return within(key, json.at(key).number(), 0.0, largest);
    };
    TrainingSettings settings;
    settings.steps = count("steps", 1, kMostSteps);
    settings.batch = count("batch", 1, kLargestBatch);
    const std::string precision = json.at("precision").text();
    settings.precision =
        precision == name(Precision::kBFloat16) ? Precision::kBFloat16 : Precision::kFloat32;
    if (precision != name(settings.precision)) {
      throw std::invalid_argument("unknown precision " + precision);
    }
    OptimizerSettings& optimizer = settings.optimizer;
    optimizer.learning_rate = real("learning_rate", 1);
    optimizer.beta1 = real("beta1", 1);
    optimizer.beta2 = real("beta2", 1);
    optimizer.epsilon = real("epsilon", 1);
    optimizer.weight_decay = real("weight_decay", 10);
    optimizer.clip = real("clip", 1e6);
    optimizer.warmup = count("warmup", 0, kMostSteps);
    return settings;
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("not a training's settings: ") + error.what());
  }
}

}  // namespace train_gpt
