// SPDX-License-Identifier: Apache-2.0
// The parameters of the model, and the positions in a flat buffer.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_PARAMETERS_H_
#define KEEL_SAMPLES_MIXED_TRAINING_PARAMETERS_H_

#include <array>
#include <cstdint>
#include <keel/keel.hpp>
#include <vector>

namespace mixed_training {

inline constexpr int64_t kVocabulary = 256;  // every byte is a token
inline constexpr int64_t kContext = 16;      // bytes of context for each prediction
inline constexpr int64_t kEmbedding = 32;    // features per byte

enum ParameterId : size_t {
  kEmbeddingTable,
  kWeight1,
  kBias1,
  kWeight2,
  kBias2,
  kWeight3,
  kBias3,
  kParameterCount
};

struct Parameter {
  const char* name;
  int64_t rows;  // 0: a vector of |columns|
  int64_t columns;
  int64_t offset = 0;  // floats from the start of the flat buffer
  int64_t size = 0;    // floats
};

// Parameters, gradients and both moments of AdamW are flat buffers in this layout: for any number
// of tensors, a single collective sums the gradients and a single operator updates all parameters.
class ParameterLayout {
 public:
  explicit ParameterLayout(int64_t hidden);

  int64_t hidden() const { return hidden_; }
  int64_t size() const { return size_; }  // floats
  const std::array<Parameter, kParameterCount>& all() const { return parameters_; }

  // Returns parameter |id| as a view of |flat|, which must outlive the view.
  keel_tensor view(const keel::Buffer& flat, ParameterId id) const;
  // Returns weights for inputs of unit variance and zero biases; deterministic for |seed|.
  std::vector<float> initial_values(uint64_t seed) const;

 private:
  int64_t hidden_;
  int64_t size_ = 0;
  std::array<Parameter, kParameterCount> parameters_;
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_PARAMETERS_H_
