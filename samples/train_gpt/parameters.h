// SPDX-License-Identifier: Apache-2.0
// The parameters of a model, and the positions in a flat buffer.
#ifndef KEEL_SAMPLES_TRAIN_GPT_PARAMETERS_H_
#define KEEL_SAMPLES_TRAIN_GPT_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "samples/train_gpt/config.h"

namespace train_gpt {

struct Parameter {
  std::string name;            // "layers.0.query.weight"
  std::vector<int64_t> shape;  // [outputs, inputs] for a matrix
  int64_t offset = 0;          // elements from the start of the flat buffer
  int64_t size = 0;            // elements
  float deviation = 0;         // standard deviation of initial values
  float mean = 0;
};

inline constexpr size_t kNone = SIZE_MAX;  // parameter absent in this architecture

// Indexes of parameters in the layout.
struct LinearIds {
  size_t weight = kNone;
  size_t bias = kNone;
};
struct NormIds {
  size_t gain = kNone;
  size_t bias = kNone;
};
struct LayerIds {
  NormIds attention_norm;
  LinearIds query, key, value, projection;
  NormIds mlp_norm;
  LinearIds up;  // Llama: the gate's rows, then up's rows
  LinearIds down;
};
struct ModelIds {
  size_t tokens = kNone;     // [vocabulary, width]
  size_t positions = kNone;  // [context, width]
  std::vector<LayerIds> layers;
  NormIds norm;
  LinearIds head;  // its weight is |tokens| in GPT-2
};

// Main weights, gradients and both moments of AdamW are flat buffers in this layout, so a single
// collective sums the gradients and two operators update all weights. Matrices (weight decay) come
// first; vectors (no weight decay) follow. Tensors start at multiples of 64 elements, for kernels
// that need alignment; the gaps are zeroes and remain zeroes.
class ParameterLayout {
 public:
  explicit ParameterLayout(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  const ModelIds& ids() const { return ids_; }
  const std::vector<Parameter>& all() const { return parameters_; }
  int64_t size() const { return size_; }               // elements, gaps included
  int64_t matrices_size() const { return matrices_; }  // elements that decay
  int64_t count() const;                               // elements without gaps

  // Deterministic for |seed|.
  std::vector<float> initial_values(uint64_t seed) const;

 private:
  size_t add(const std::string& name, std::vector<int64_t> shape, float deviation, float mean = 0);
  LinearIds add_linear(const std::string& name, int64_t outputs, int64_t inputs, float deviation);
  NormIds add_norm(const std::string& name);
  void place();

  ModelConfig config_;
  ModelIds ids_;
  std::vector<Parameter> parameters_;
  int64_t size_ = 0;
  int64_t matrices_ = 0;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_PARAMETERS_H_
