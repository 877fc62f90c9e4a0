// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/parameters.h"

#include <cmath>
#include <random>

namespace mixed_training {

ParameterLayout::ParameterLayout(int64_t hidden)
    : hidden_(hidden),
      parameters_{{{"embedding", kVocabulary, kEmbedding},
                   {"weight1", kContext * kEmbedding, hidden},
                   {"bias1", 0, hidden},
                   {"weight2", hidden, hidden},
                   {"bias2", 0, hidden},
                   {"weight3", hidden, kVocabulary},
                   {"bias3", 0, kVocabulary}}} {
  for (Parameter& parameter : parameters_) {
    parameter.offset = size_;
    parameter.size = (parameter.rows == 0 ? 1 : parameter.rows) * parameter.columns;
    size_ += parameter.size;
  }
}

keel_tensor ParameterLayout::view(const keel::Buffer& flat, ParameterId id) const {
  const Parameter& parameter = parameters_[id];
  keel_tensor tensor = parameter.rows == 0
                           ? flat.tensor<float>({parameter.columns})
                           : flat.tensor<float>({parameter.rows, parameter.columns});
  tensor.byte_offset = static_cast<uint64_t>(parameter.offset) * sizeof(float);
  return tensor;
}

std::vector<float> ParameterLayout::initial_values(uint64_t seed) const {
  std::vector<float> values(static_cast<size_t>(size_), 0.0F);
  std::mt19937_64 generator(seed);
  for (const Parameter& parameter : parameters_) {
    if (parameter.rows == 0) continue;
    const bool is_table = &parameter == &parameters_[kEmbeddingTable];
    const double fan_in = is_table ? 1.0 : static_cast<double>(parameter.rows);
    std::normal_distribution<float> normal(0.0F, static_cast<float>(1.0 / std::sqrt(fan_in)));
    for (int64_t i = 0; i < parameter.size; ++i) {
      values[static_cast<size_t>(parameter.offset + i)] = normal(generator);
    }
  }
  return values;
}

}  // namespace mixed_training
