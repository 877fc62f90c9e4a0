// SPDX-License-Identifier: Apache-2.0
// The shape of a model.
#ifndef KEEL_SAMPLES_TRAIN_GPT_CONFIG_H_
#define KEEL_SAMPLES_TRAIN_GPT_CONFIG_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace train_gpt {

inline constexpr int64_t kVocabulary = 256;  // every byte is a token

// GPT-2: layer norms, learned positions, gelu, biases, and one matrix for both embedding and head.
// Llama: RMS norms, rotary positions, swiglu, key/value heads shared by several query heads, no
// biases.
enum class Architecture { kGpt2, kLlama };

// The dtype that matrix products read. Everything else is float32: other operators, main weights,
// gradients and the optimizer's state.
enum class Precision { kFloat32, kBFloat16 };

struct ModelConfig {
  Architecture architecture = Architecture::kGpt2;
  int64_t layers = 4;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t kv_heads = 4;      // fewer than heads only in Llama
  int64_t mlp_width = 1024;  // of the hidden layer
  int64_t context = 256;     // tokens per sequence
  double norm_epsilon = 1e-5;
  double rope_theta = 1e4;

  bool is_llama() const { return architecture == Architecture::kLlama; }
  int64_t head_size() const { return width / heads; }
  int64_t kv_width() const { return kv_heads * head_size(); }
  // Output width of the MLP's first matrix: swiglu takes gate and up side by side.
  int64_t up_width() const { return is_llama() ? 2 * mlp_width : mlp_width; }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Throws std::invalid_argument, naming the command line's option, for an invalid config.
void check(const ModelConfig& config);

const char* name(Architecture architecture);  // "gpt2", "llama"
const char* name(Precision precision);        // "fp32", "bf16"

// Convert to one line of JSON and back. config_from_json throws std::runtime_error.
nlohmann::ordered_json json_of(const ModelConfig& config);
std::string to_json(const ModelConfig& config);
ModelConfig config_from_json(const std::string& text);

// Returns the operations of one token's forward and backward pass: two per weight in a product
// forward, and twice as many backward; for attention, the half that the causal mask leaves.
double training_flops_per_token(const ModelConfig& config);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_CONFIG_H_
