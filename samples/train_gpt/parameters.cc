// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/parameters.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace train_gpt {
namespace {

constexpr int64_t kAlignment = 64;
constexpr float kDeviation = 0.02F;

}  // namespace

ParameterLayout::ParameterLayout(const ModelConfig& config) : config_(config) {
  check(config);
  const int64_t width = config.width;
  // Each layer adds to the residual twice; the smaller deviation keeps the sum of all additions as
  // large as one.
  const float residual = kDeviation / std::sqrt(2.0F * static_cast<float>(config.layers));
  ids_.tokens = add("tokens.weight", {kVocabulary, width}, kDeviation);
  if (!config.is_llama()) {
    ids_.positions = add("positions.weight", {config.context, width}, kDeviation);
  }
  for (int64_t index = 0; index < config.layers; ++index) {
    const std::string layer = "layers." + std::to_string(index) + ".";
    LayerIds ids;
    ids.attention_norm = add_norm(layer + "attention_norm");
    ids.query = add_linear(layer + "query", width, width, kDeviation);
    ids.key = add_linear(layer + "key", config.kv_width(), width, kDeviation);
    ids.value = add_linear(layer + "value", config.kv_width(), width, kDeviation);
    ids.projection = add_linear(layer + "projection", width, width, residual);
    ids.mlp_norm = add_norm(layer + "mlp_norm");
    ids.up = add_linear(layer + "up", config.up_width(), width, kDeviation);
    ids.down = add_linear(layer + "down", width, config.mlp_width, residual);
    ids_.layers.push_back(ids);
  }
  ids_.norm = add_norm("norm");
  ids_.head.weight =
      config.is_llama() ? add("head.weight", {kVocabulary, width}, kDeviation) : ids_.tokens;
  place();
}

size_t ParameterLayout::add(const std::string& name, std::vector<int64_t> shape, float deviation,
                            float mean) {
  Parameter parameter;
  parameter.name = name;
  parameter.size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  parameter.shape = std::move(shape);
  parameter.deviation = deviation;
  parameter.mean = mean;
  parameters_.push_back(std::move(parameter));
  return parameters_.size() - 1;
}

LinearIds ParameterLayout::add_linear(const std::string& name, int64_t outputs, int64_t inputs,
                                      float deviation) {
  LinearIds ids;
  ids.weight = add(name + ".weight", {outputs, inputs}, deviation);
  if (!config_.is_llama()) ids.bias = add(name + ".bias", {outputs}, 0);
  return ids;
}

NormIds ParameterLayout::add_norm(const std::string& name) {
  NormIds ids;
  ids.gain = add(name + ".weight", {config_.width}, 0, /*mean=*/1);
  if (!config_.is_llama()) ids.bias = add(name + ".bias", {config_.width}, 0);
  return ids;
}

void ParameterLayout::place() {
  for (const size_t rank : {size_t{2}, size_t{1}}) {
    for (Parameter& parameter : parameters_) {
      if (parameter.shape.size() != rank) continue;
      parameter.offset = size_;
      size_ += (parameter.size + kAlignment - 1) / kAlignment * kAlignment;
    }
    if (rank == 2) matrices_ = size_;
  }
}

int64_t ParameterLayout::count() const {
  return std::accumulate(
      parameters_.begin(), parameters_.end(), int64_t{0},
      [](int64_t sum, const Parameter& parameter) { return sum + parameter.size; });
}

std::vector<float> ParameterLayout::initial_values(uint64_t seed) const {
  std::vector<float> values(static_cast<size_t>(size_), 0.0F);
  std::mt19937_64 generator(seed);
  for (const Parameter& parameter : parameters_) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < parameter.size; ++i) {
      const float noise = parameter.deviation == 0 ? 0 : parameter.deviation * normal(generator);
      values[static_cast<size_t>(parameter.offset + i)] = parameter.mean + noise;
    }
  }
  return values;
}

}  // namespace train_gpt
