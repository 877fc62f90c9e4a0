// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/config.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_value.h"
#include "base/strict_json.h"

namespace train_gpt {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxHeadSize = 256;  // limit of the attention operator

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

ordered_json json_of(const ModelConfig& config) {
  return {{"architecture", name(config.architecture)},
          {"layers", config.layers},
          {"width", config.width},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"mlp_width", config.mlp_width},
          {"context", config.context},
          {"norm_epsilon", config.norm_epsilon},
          {"rope_theta", config.rope_theta}};
}

std::string to_json(const ModelConfig& config) {
  return json_of(config).dump();
}

ModelConfig config_from_json(const std::string& text) {
  nlohmann::json parsed;
  std::string wrong;
  if (!keel::parse_json(text, &parsed, &wrong)) {
    throw std::runtime_error("not a model's config: " + wrong);
  }
  try {
    const keel::JsonValue json(parsed);
    ModelConfig config;
    const std::string architecture = json.at("architecture").text();
    require(architecture == "gpt2" || architecture == "llama",
            "unknown architecture " + architecture);
    config.architecture = architecture == "gpt2" ? Architecture::kGpt2 : Architecture::kLlama;
    config.layers = json.at("layers").integer();
    config.width = json.at("width").integer();
    config.heads = json.at("heads").integer();
    config.kv_heads = json.at("kv_heads").integer();
    config.mlp_width = json.at("mlp_width").integer();
    config.context = json.at("context").integer();
    config.norm_epsilon = json.at("norm_epsilon").number();
    config.rope_theta = json.at("rope_theta").number();
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
  const double keys = (static_cast<double>(config.context) + 1) / 2;  // mean keys per query
  const double forward = static_cast<double>(config.layers) *
                             (2 * (attention_weights + mlp_weights) + 4 * width * keys) +
                         2 * width * static_cast<double>(kVocabulary);
  return 3 * forward;
}

}  // namespace train_gpt
