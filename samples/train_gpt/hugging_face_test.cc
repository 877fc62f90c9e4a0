// SPDX-License-Identifier: Apache-2.0
// Tests weights in the Hugging Face layout: round trips, and refusals of other models' weights.
#include "samples/train_gpt/hugging_face.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "samples/train_gpt/test_fixture.h"
#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorSource;
using keel::tensorfile::write_safetensors;

class HuggingFaceTest : public ArchitectureTest {
 protected:
  HuggingFaceTest()
      : layout_(tiny_config(GetParam())), values_(static_cast<size_t>(layout_.size()), 0.0F) {
    float next = 1;  // different for each element, exact in float32
    for (const Parameter& each : layout_.all()) {
      for (int64_t i = 0; i < each.size; ++i) {
        values_[static_cast<size_t>(each.offset + i)] = next++;
      }
    }
    export_weights(folder_ / "out", layout_, values_);
  }
  const Parameter& parameter(const std::string& name) const {
    return *std::find_if(layout_.all().begin(), layout_.all().end(),
                         [&](const Parameter& each) { return each.name == name; });
  }
  float at(const std::string& name, int64_t row, int64_t column) const {
    const Parameter& each = parameter(name);
    return values_[static_cast<size_t>(each.offset + row * each.shape[1] + column)];
  }

  // Returns the message for importing the weights into |other|.
  std::string refusal_for(const ParameterLayout& other) const {
    return message_of<FileError>([&] { import_weights(folder_ / "out/model.safetensors", other); });
  }
  // Rewrites the tensors with an additional one.
  void add_tensor(const std::string& name, const std::vector<int64_t>& shape,
                  const std::vector<float>& values) {
    const SafetensorsFile file(folder_ / "out/model.safetensors");
    std::vector<std::vector<float>> data;
    std::vector<TensorSource> tensors;
    for (const auto& [theirs, tensor] : file.tensors()) {
      data.push_back(file.read_floats(theirs, tensor.shape));
      tensors.push_back({theirs, "F32", tensor.shape, std::as_bytes(std::span(data.back()))});
    }
    tensors.push_back({name, "F32", shape, std::as_bytes(std::span(values))});
    write_safetensors(folder_ / "out/model.safetensors", tensors, {});
  }

  ParameterLayout layout_;
  std::vector<float> values_;
  Folder folder_;
};

TEST_P(HuggingFaceTest, ComesBackToTheBit) {
  EXPECT_TRUE(same_bits(import_weights(folder_ / "out/model.safetensors", layout_), values_));
}

TEST_P(HuggingFaceTest, HasTheirShapes) {
  const SafetensorsFile file(folder_ / "out/model.safetensors");
  std::ifstream config_file(folder_ / "out/config.json");
  const nlohmann::json config = nlohmann::json::parse(config_file);
  if (GetParam() == Architecture::kGpt2) {
    EXPECT_EQ(config["model_type"], "gpt2");
    EXPECT_EQ(file.tensors().size(), 2U + 2 * 12 + 2);
    EXPECT_FALSE(file.has("lm_head.weight"));
    // [inputs, outputs]: the outputs of query, key and value side by side.
    const std::vector<float> weight =
        file.read_floats("h.1.attn.c_attn.weight", std::vector<int64_t>{16, 48});
    EXPECT_EQ(weight[3 * 48 + 2], at("layers.1.query.weight", 2, 3));
    EXPECT_EQ(weight[3 * 48 + 16 + 2], at("layers.1.key.weight", 2, 3));
    EXPECT_EQ(weight[15 * 48 + 47], at("layers.1.value.weight", 15, 15));
    EXPECT_EQ(file.read_floats("h.0.mlp.c_fc.weight", std::vector<int64_t>{16, 24})[24 + 5],
              at("layers.0.up.weight", 5, 1));
    EXPECT_EQ(file.read_floats("wpe.weight", std::vector<int64_t>{8, 16})[17],
              at("positions.weight", 1, 1));
  } else {
    EXPECT_EQ(config["num_key_value_heads"], 2);
    EXPECT_EQ(file.tensors().size(), 1U + 2 * 9 + 2);
    // [outputs, inputs], like our layout.
    EXPECT_EQ(file.read_floats("model.layers.1.self_attn.k_proj.weight",
                               std::vector<int64_t>{8, 16})[2 * 16 + 3],
              at("layers.1.key.weight", 2, 3));
    EXPECT_EQ(file.read_floats("model.layers.0.mlp.gate_proj.weight",
                               std::vector<int64_t>{24, 16})[5 * 16 + 1],
              at("layers.0.up.weight", 5, 1));
    EXPECT_EQ(file.read_floats("model.layers.0.mlp.up_proj.weight",
                               std::vector<int64_t>{24, 16})[5 * 16 + 1],
              at("layers.0.up.weight", 24 + 5, 1));
  }
}

TEST_P(HuggingFaceTest, KeepsTheWeightsWhereTheirConfigCannotBeWritten) {
  fs::remove(folder_ / "out/config.json");
  fs::create_directory(folder_ / "out/config.json");
  EXPECT_THROW(export_weights(folder_ / "out", layout_, std::vector<float>(values_.size(), 0.0F)),
               FileError);
  fs::remove(folder_ / "out/config.json");
  EXPECT_TRUE(same_bits(import_weights(folder_ / "out/model.safetensors", layout_), values_));
}

TEST_P(HuggingFaceTest, NamesTheTensorOfAnotherShape) {
  ModelConfig config = layout_.config();
  config.mlp_width = 32;
  const ParameterLayout other(config);
  fs::remove(folder_ / "out/config.json");
  const std::string message = refusal_for(other);
  const char* tensor = GetParam() == Architecture::kGpt2 ? "tensor h.0.mlp.c_fc.weight: its shape"
                                                         : "tensor model.layers.0.mlp.gate_proj";
  EXPECT_NE(message.find(tensor), std::string::npos) << message;
}

// Heads, positions and norms of another model, with the same shape of every tensor.
TEST_P(HuggingFaceTest, RefusesTheConfigOfAnotherModel) {
  const bool is_llama = GetParam() == Architecture::kLlama;
  ModelConfig heads = layout_.config();
  heads.heads = 2;
  heads.kv_heads = is_llama ? 1 : 2;
  std::string message = refusal_for(ParameterLayout(heads));
  EXPECT_NE(message.find(is_llama ? "num_attention_heads is 4, not 2" : "n_head is 4, not 2"),
            std::string::npos)
      << message;
  ModelConfig norm = layout_.config();
  norm.norm_epsilon = 1e-3;
  message = refusal_for(ParameterLayout(norm));
  EXPECT_NE(message.find("eps"), std::string::npos) << message;
  EXPECT_NE(message.find("is 1e-05, not 0.001"), std::string::npos) << message;
  if (is_llama) {
    ModelConfig theta = layout_.config();
    theta.rope_theta = 5e5;
    message = refusal_for(ParameterLayout(theta));
    EXPECT_NE(message.find("rope_theta is 10000.0, not 500000.0"), std::string::npos) << message;
  }
  std::ofstream(folder_ / "out/config.json") << "[1]";
  message = refusal_for(layout_);
  EXPECT_NE(message.find("config.json: is not a JSON object"), std::string::npos) << message;
  std::ofstream(folder_ / "out/config.json") << R"({"n_head": 4, "n_head": 2})";
  message = refusal_for(layout_);
  EXPECT_NE(message.find("config.json: the key 'n_head' is there twice"), std::string::npos)
      << message;
}

TEST_P(HuggingFaceTest, TakesConfigsOfOtherVersions) {
  const auto write = [&](const char* text) {
    std::ofstream(folder_ / "out/config.json") << text;
    return refusal_for(layout_);
  };
  if (GetParam() == Architecture::kGpt2) {
    EXPECT_NE(write(R"({"n_inner": null})").find("n_inner is 64, not 24"), std::string::npos);
    EXPECT_EQ(write(R"({"n_inner": 24})"), "");
    return;
  }
  EXPECT_NE(write("{}").find("rms_norm_eps is 1e-06"), std::string::npos) << "their default";
  EXPECT_EQ(write(R"({"rms_norm_eps": 1e-5, "rope_parameters": {"rope_theta": 10000}})"), "");
  EXPECT_NE(write(R"({"rms_norm_eps": 1e-5, "rope_parameters": {"rope_theta": 20000}})")
                .find("rope_theta is 20000"),
            std::string::npos);
  EXPECT_NE(write(R"({"rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "yarn"}})")
                .find("rope_scaling"),
            std::string::npos);
}

TEST_P(HuggingFaceTest, RefusesTensorsLeftOver) {
  ModelConfig config = layout_.config();
  config.layers = 1;
  fs::remove(folder_ / "out/config.json");
  std::string message = refusal_for(ParameterLayout(config));
  const bool is_llama = GetParam() == Architecture::kLlama;
  EXPECT_NE(message.find(is_llama ? "tensor model.layers.1." : "tensor h.1."), std::string::npos)
      << message;

  add_tensor(is_llama ? "model.layers.0.self_attn.rotary_emb.inv_freq" : "h.0.attn.bias", {2},
             {1, 0.5F});
  EXPECT_EQ(refusal_for(layout_), "");
  if (is_llama) {
    add_tensor("model.layers.0.self_attn.q_proj.bias", {16}, std::vector<float>(16, 1.0F));
    message = refusal_for(layout_);
    EXPECT_NE(message.find("q_proj.bias"), std::string::npos) << message;
    return;
  }
  const Parameter& tokens = parameter("tokens.weight");
  std::vector<float> head(values_.begin() + tokens.offset,
                          values_.begin() + tokens.offset + tokens.size);
  export_weights(folder_ / "out", layout_, values_);
  add_tensor("lm_head.weight", tokens.shape, head);
  EXPECT_EQ(refusal_for(layout_), "") << "the head is the embedding's table";
  export_weights(folder_ / "out", layout_, values_);
  head[5] += 1;
  add_tensor("lm_head.weight", tokens.shape, head);
  message = refusal_for(layout_);
  EXPECT_NE(message.find("tensor lm_head.weight"), std::string::npos) << message;
}

// Names as GPT2LMHeadModel saves them, and as a Llama whose head is its embedding.
TEST_P(HuggingFaceTest, TakesTheOtherNames) {
  const SafetensorsFile file(folder_ / "out/model.safetensors");
  std::vector<std::vector<float>> data;
  std::vector<TensorSource> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name == "lm_head.weight") continue;
    data.push_back(file.read_floats(name, tensor.shape));
  }
  size_t next = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name == "lm_head.weight") continue;
    tensors.push_back({GetParam() == Architecture::kGpt2 ? "transformer." + name : name, "F32",
                       tensor.shape, std::as_bytes(std::span<const float>(data[next++]))});
  }
  write_safetensors(folder_ / "other", tensors, {});
  const std::vector<float> values = import_weights(folder_ / "other", layout_);
  if (GetParam() == Architecture::kGpt2) {
    EXPECT_TRUE(same_bits(values, values_));
    return;
  }
  const Parameter& tokens = parameter("tokens.weight");
  const Parameter& head = parameter("head.weight");
  EXPECT_TRUE(std::equal(values.begin() + head.offset, values.begin() + head.offset + head.size,
                         values.begin() + tokens.offset));
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceTest,
                         testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

}  // namespace
}  // namespace train_gpt
