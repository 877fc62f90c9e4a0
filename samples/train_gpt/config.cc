// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/config.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "samples/train_gpt/json.h"

namespace train_gpt {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxHeadSize = 256;  // of the attention operator

void require(bool holds, const std::string& complaint) {
  if (!holds) throw std::invalid_argument(complaint);
}

}  // namespace

void check(const ModelConfig& config) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  require(config.layers >= 1, "--layers must be at least 1");
  require(config.heads >= 1 && config.width >= 1 && config.width % config.heads == 0,
          "--width " + text(config.width) + " is not a multiple of --heads " + text(config.heads));
  require(config.head_size() <= kMaxHeadSize,
          "--width over --heads is " + text(config.head_size()) + ", above " + text(kMaxHeadSize));
  require(config.kv_heads >= 1 && config.heads % config.kv_heads == 0,
          "--kv-heads " + text(config.kv_heads) + " do not divide --heads " + text(config.heads));
  require(config.mlp_width >= 1, "--mlp-width must be at least 1");
  require(config.context >= 1, "--context must be at least 1");
  if (config.is_llama()) {
    require(config.head_size() % 2 == 0, "--width over --heads is " + text(config.head_size()) +
                                             ": rotary positions turn pairs");
  } else {
    require(config.kv_heads == config.heads, "--kv-heads: GPT-2 has as many as --heads");
  }
}

const char* name(Architecture architecture) {
  return architecture == Architecture::kGpt2 ? "gpt2" : "llama";
}

const char* name(Precision precision) {
  return precision == Precision::kFloat32 ? "fp32" : "bf16";
}

std::string to_json(const ModelConfig& config) {
  return ordered_json({{"architecture", name(config.architecture)},
                       {"layers", config.layers},
                       {"width", config.width},
                       {"heads", config.heads},
                       {"kv_heads", config.kv_heads},
                       {"mlp_width", config.mlp_width},
                       {"context", config.context},
                       {"norm_epsilon", config.norm_epsilon},
                       {"rope_theta", config.rope_theta}})
      .dump();
}

ModelConfig config_from_json(const std::string& text) {
  try {
    const ordered_json json = ordered_json::parse(text);
    ModelConfig config;
    const std::string architecture = json.at("architecture");
    require(architecture == "gpt2" || architecture == "llama",
            "unknown architecture " + architecture);
    config.architecture = architecture == "gpt2" ? Architecture::kGpt2 : Architecture::kLlama;
    config.layers = integer(json, "layers");
    config.width = integer(json, "width");
    config.heads = integer(json, "heads");
    config.kv_heads = integer(json, "kv_heads");
    config.mlp_width = integer(json, "mlp_width");
    config.context = integer(json, "context");
    config.norm_epsilon = number(json, "norm_epsilon");
    config.rope_theta = number(json, "rope_theta");
    check(config);
    return config;
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("not a model's config: ") + error.what());
  }
}

double training_flops_per_token(const ModelConfig& config) {
  const auto width = static_cast<double>(config.width);
  const double attention_weights = 2 * width * (width + static_cast<double>(config.kv_width()));
  const double mlp_weights = width * static_cast<double>(config.up_width() + config.mlp_width);
  const double keys = (static_cast<double>(config.context) + 1) / 2;  // that a query sees
  const double forward = static_cast<double>(config.layers) *
                             (2 * (attention_weights + mlp_weights) + 4 * width * keys) +
                         2 * width * static_cast<double>(kVocabulary);
  return 3 * forward;
}

}  // namespace train_gpt
