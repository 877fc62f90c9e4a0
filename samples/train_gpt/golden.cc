// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "base/strict_json.h"
#include "samples/train_gpt/test_fixture.h"
#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

using keel::tensorfile::SafetensorsFile;
using nlohmann::json;

// splitmix64's finaliser.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

TrainingSettings settings_of(const json& text) {
  TrainingSettings settings;
  settings.steps = text.at("steps");
  settings.batch = text.at("batch");
  settings.seed = text.at("seed");
  OptimizerSettings& optimizer = settings.optimizer;
  optimizer.learning_rate = text.at("learning_rate");
  optimizer.beta1 = text.at("beta1");
  optimizer.beta2 = text.at("beta2");
  optimizer.epsilon = text.at("epsilon");
  optimizer.weight_decay = text.at("weight_decay");
  optimizer.clip = text.at("clip");
  optimizer.warmup = text.at("warmup");
  return settings;
}

std::vector<double> read_steps(const SafetensorsFile& file, const std::string& name,
                               int64_t steps) {
  const std::vector<float> values = file.read_floats(name, std::span(&steps, 1));
  return {values.begin(), values.end()};
}

std::span<const float> part(const std::vector<float>& flat, const Parameter& parameter) {
  return std::span(flat).subspan(static_cast<size_t>(parameter.offset),
                                 static_cast<size_t>(parameter.size));
}

double norm(std::span<const float> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

// The bias of a key shifts all scores of a query equally; softmax ignores the shift.
bool has_no_gradient(const Parameter& parameter) {
  return parameter.name.find(".key.bias") != std::string::npos;
}

}  // namespace

Golden read_golden(const std::filesystem::path& folder, Architecture architecture) {
  const SafetensorsFile file(folder / (std::string(name(architecture)) + ".safetensors"));
  json training;
  std::string wrong;
  if (!keel::parse_json(file.metadata("training"), &training, &wrong)) {
    throw keel::tensorfile::FileError(file.path(), "metadata training: " + wrong);
  }
  Golden golden = {ParameterLayout(config_from_json(file.metadata("config"))),
                   settings_of(training),
                   lines_of_text(training.at("lines")),
                   {}};
  Course& course = golden.course;
  course.gradient.resize(static_cast<size_t>(golden.layout.size()));
  for (const Parameter& parameter : golden.layout.all()) {
    const std::vector<float> values =
        file.read_floats("gradient." + parameter.name, parameter.shape);
    std::copy(values.begin(), values.end(), course.gradient.begin() + parameter.offset);
  }
  course.losses = read_steps(file, "losses", golden.training.steps);
  course.gradient_norms = read_steps(file, "gradient_norms", golden.training.steps);
  return golden;
}

std::filesystem::path golden_folder() {
  return std::filesystem::path(KEEL_SOURCE_DIR) / "samples/train_gpt/goldens";
}

std::vector<float> golden_weights(const ParameterLayout& layout) {
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.0F);
  uint64_t counter = 0;
  for (const Parameter& parameter : layout.all()) {
    for (int64_t i = 0; i < parameter.size; ++i) {
      // 24 bits are exact in float32.
      const double uniform = static_cast<double>(mix(counter++) >> 40) / (1 << 23) - 1;
      values[static_cast<size_t>(parameter.offset + i)] =
          static_cast<float>(static_cast<double>(parameter.mean) + 0.25 * uniform);
    }
  }
  return values;
}

void expect_close(const Course& course, const Golden& golden, const Tolerance& tolerance) {
  const Course& want = golden.course;
  for (const Parameter& parameter : golden.layout.all()) {
    const std::span<const float> gradient = part(course.gradient, parameter);
    if (has_no_gradient(parameter)) {  // only rounding errors remain
      EXPECT_LT(norm(gradient), 1e-8 * norm(want.gradient)) << parameter.name;
      continue;
    }
    const std::span<const float> golden_gradient = part(want.gradient, parameter);
    EXPECT_GT(norm(golden_gradient), 1e-4 * norm(want.gradient)) << parameter.name;
    EXPECT_LT(distance(gradient, golden_gradient) / norm(golden_gradient), tolerance.gradient)
        << parameter.name;
  }
  ASSERT_EQ(course.losses.size(), want.losses.size());
  ASSERT_EQ(course.gradient_norms.size(), want.gradient_norms.size());
  for (size_t step = 0; step < want.losses.size(); ++step) {
    EXPECT_NEAR(course.losses[step], want.losses[step], tolerance.loss) << "step " << step;
    EXPECT_NEAR(course.gradient_norms[step] / want.gradient_norms[step], 1, tolerance.gradient_norm)
        << "step " << step;
  }
}

}  // namespace train_gpt
