// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/hugging_face.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "base/strict_json.h"
#include "tensorfile/replacement.h"
#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::replace_file;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorSource;
using keel::tensorfile::write_safetensors;
using nlohmann::json;

// Rows of a parameter; each element of a vector is one row.
struct Piece {
  size_t parameter;
  int64_t first_row;
  int64_t rows;
};

// A Hugging Face tensor: pieces of our parameters, one below the other; transposed if the tensor is
// a weight of a Conv1D, which GPT-2 stores as [inputs, outputs].
struct Mapping {
  std::string name;
  std::vector<Piece> pieces;
  bool transposed = false;
};

class MappingBuilder {
 public:
  explicit MappingBuilder(const ParameterLayout& layout) : layout_(layout) {}

  std::vector<Mapping> build() {
    return layout_.config().is_llama() ? build_llama() : build_gpt2();
  }

 private:
  Piece whole(size_t id) const { return {id, 0, layout_.all()[id].shape[0]}; }
  void add(const std::string& name, size_t id) { mappings_.push_back({name, {whole(id)}}); }
  void add_norm(const std::string& name, const NormIds& ids) {
    add(name + ".weight", ids.gain);
    if (ids.bias != kNone) add(name + ".bias", ids.bias);
  }
  void add_conv1d(const std::string& name, std::initializer_list<LinearIds> linears) {
    Mapping weight{name + ".weight", {}, /*transposed=*/true};
    Mapping bias{name + ".bias", {}};
    for (const LinearIds& ids : linears) {
      weight.pieces.push_back(whole(ids.weight));
      bias.pieces.push_back(whole(ids.bias));
    }
    mappings_.push_back(std::move(weight));
    mappings_.push_back(std::move(bias));
  }

  std::vector<Mapping> build_gpt2() {
    const ModelIds& ids = layout_.ids();
    add("wte.weight", ids.tokens);
    add("wpe.weight", ids.positions);
    for (size_t i = 0; i < ids.layers.size(); ++i) {
      const LayerIds& layer = ids.layers[i];
      const std::string prefix = "h." + std::to_string(i) + ".";
      add_norm(prefix + "ln_1", layer.attention_norm);
      add_conv1d(prefix + "attn.c_attn", {layer.query, layer.key, layer.value});
      add_conv1d(prefix + "attn.c_proj", {layer.projection});
      add_norm(prefix + "ln_2", layer.mlp_norm);
      add_conv1d(prefix + "mlp.c_fc", {layer.up});
      add_conv1d(prefix + "mlp.c_proj", {layer.down});
    }
    add_norm("ln_f", ids.norm);
    return std::move(mappings_);
  }

  std::vector<Mapping> build_llama() {
    const ModelIds& ids = layout_.ids();
    const int64_t hidden = layout_.config().mlp_width;
    add("model.embed_tokens.weight", ids.tokens);
    for (size_t i = 0; i < ids.layers.size(); ++i) {
      const LayerIds& layer = ids.layers[i];
      const std::string prefix = "model.layers." + std::to_string(i) + ".";
      add_norm(prefix + "input_layernorm", layer.attention_norm);
      add(prefix + "self_attn.q_proj.weight", layer.query.weight);
      add(prefix + "self_attn.k_proj.weight", layer.key.weight);
      add(prefix + "self_attn.v_proj.weight", layer.value.weight);
      add(prefix + "self_attn.o_proj.weight", layer.projection.weight);
      add_norm(prefix + "post_attention_layernorm", layer.mlp_norm);
      mappings_.push_back({prefix + "mlp.gate_proj.weight", {{layer.up.weight, 0, hidden}}});
      mappings_.push_back({prefix + "mlp.up_proj.weight", {{layer.up.weight, hidden, hidden}}});
      add(prefix + "mlp.down_proj.weight", layer.down.weight);
    }
    add_norm("model.norm", ids.norm);
    add("lm_head.weight", ids.head.weight);
    return std::move(mappings_);
  }

  const ParameterLayout& layout_;
  std::vector<Mapping> mappings_;
};

int64_t columns_of(const ParameterLayout& layout, const Mapping& mapping) {
  const std::vector<int64_t>& shape = layout.all()[mapping.pieces[0].parameter].shape;
  return shape.size() == 2 ? shape[1] : 1;
}

int64_t rows_of(const Mapping& mapping) {
  int64_t rows = 0;
  for (const Piece& piece : mapping.pieces) rows += piece.rows;
  return rows;
}

std::vector<int64_t> shape_of(const ParameterLayout& layout, const Mapping& mapping) {
  const int64_t rows = rows_of(mapping);
  if (layout.all()[mapping.pieces[0].parameter].shape.size() == 1) return {rows};
  const int64_t columns = columns_of(layout, mapping);
  return mapping.transposed ? std::vector<int64_t>{columns, rows}
                            : std::vector<int64_t>{rows, columns};
}

// Calls |visit| with each element's index in the flat buffer and in the Hugging Face tensor.
template <typename Visit>
void for_each_element(const ParameterLayout& layout, const Mapping& mapping, Visit&& visit) {
  const int64_t rows = rows_of(mapping);
  const int64_t columns = columns_of(layout, mapping);
  int64_t row = 0;
  for (const Piece& piece : mapping.pieces) {
    int64_t ours = layout.all()[piece.parameter].offset + piece.first_row * columns;
    for (const int64_t end = row + piece.rows; row < end; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t theirs = mapping.transposed ? column * rows + row : row * columns + column;
        visit(static_cast<size_t>(ours++), static_cast<size_t>(theirs));
      }
    }
  }
}

nlohmann::ordered_json config_json(const ModelConfig& config) {
  if (config.is_llama()) {
    return {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"vocab_size", kVocabulary},
            {"hidden_size", config.width},
            {"intermediate_size", config.mlp_width},
            {"num_hidden_layers", config.layers},
            {"num_attention_heads", config.heads},
            {"num_key_value_heads", config.kv_heads},
            {"max_position_embeddings", config.context},
            {"rms_norm_eps", config.norm_epsilon},
            {"rope_theta", config.rope_theta},
            {"hidden_act", "silu"},
            {"tie_word_embeddings", false},
            {"torch_dtype", "float32"}};
  }
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", kVocabulary},
          {"n_embd", config.width},
          {"n_inner", config.mlp_width},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_positions", config.context},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"activation_function", "gelu_new"},
          {"tie_word_embeddings", true},
          {"torch_dtype", "float32"}};
}

// Returns the tensor's name in |file|.
std::string name_in(const SafetensorsFile& file, const std::string& name) {
  const std::string prefixed = "transformer." + name;
  if (!file.has(name) && file.has(prefixed)) return prefixed;
  if (name == "lm_head.weight" && !file.has(name)) return "model.embed_tokens.weight";
  return name;
}

// A value of config.json: the value of |config|'s model for |key|, and the default for a missing or
// null key, since older files have fewer keys. Null: no default.
struct Trait {
  const char* key;
  json ours;
  json otherwise;
};

std::vector<Trait> traits_of(const ModelConfig& config) {
  if (config.is_llama()) {
    // max_position_embeddings is omitted: rotary positions have no weights, so any --context works.
    return {{"model_type", "llama", nullptr},
            {"vocab_size", kVocabulary, nullptr},
            {"num_hidden_layers", config.layers, nullptr},
            {"hidden_size", config.width, nullptr},
            {"intermediate_size", config.mlp_width, nullptr},
            {"num_attention_heads", config.heads, nullptr},
            {"num_key_value_heads", config.kv_heads, nullptr},
            {"head_dim", config.head_size(), nullptr},
            {"rms_norm_eps", config.norm_epsilon, 1e-6},
            {"rope_theta", config.rope_theta, 1e4},
            {"rope_scaling", nullptr, nullptr},
            {"hidden_act", "silu", "silu"},
            {"attention_bias", false, false},
            {"mlp_bias", false, false}};
  }
  return {{"model_type", "gpt2", nullptr},
          {"vocab_size", kVocabulary, nullptr},
          {"n_layer", config.layers, nullptr},
          {"n_embd", config.width, nullptr},
          {"n_inner", config.mlp_width, 4 * config.width},
          {"n_head", config.heads, nullptr},
          {"n_positions", config.context, nullptr},
          {"layer_norm_epsilon", config.norm_epsilon, 1e-5},
          {"activation_function", "gelu_new", "gelu_new"},
          {"scale_attn_weights", true, true},
          {"scale_attn_by_inverse_layer_idx", false, false}};
}

void check_config(const fs::path& path, const ModelConfig& model) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) throw FileError(path, "cannot be read");
  json config;
  std::string wrong;
  if (!keel::parse_json(text, &config, &wrong)) throw FileError(path, wrong);
  if (!config.is_object()) throw FileError(path, "is not a JSON object");
  // Newer files have rope_parameters instead of rope_theta and rope_scaling.
  if (const json rope = config.value("rope_parameters", json()); rope.is_object()) {
    config["rope_theta"] = rope.value("rope_theta", json());
    if (rope.value("rope_type", json("default")) != "default") config["rope_scaling"] = rope;
  }
  for (const auto& [key, ours, otherwise] : traits_of(model)) {
    const auto found = config.find(key);
    const bool is_given = found != config.end() && !found->is_null();
    if (!is_given && otherwise.is_null()) continue;
    const json& theirs = is_given ? *found : otherwise;
    if (theirs != ours) {
      throw FileError(path, "is of another model: " + std::string(key) + " is " + theirs.dump() +
                                ", not " + ours.dump());
    }
  }
}

// Any other left-over tensor would be a part of the model's computation.
void check_left_over(const SafetensorsFile& file, const std::set<std::string>& taken,
                     const ModelConfig& model) {
  constexpr std::string_view kNoParameters[] = {".attn.bias", ".attn.masked_bias",
                                                ".rotary_emb.inv_freq"};
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string_view text = name;
    if (taken.count(name) != 0 ||
        std::any_of(std::begin(kNoParameters), std::end(kNoParameters),
                    [&](std::string_view ending) { return text.ends_with(ending); })) {
      continue;
    }
    const std::string table = name_in(file, "wte.weight");
    if (!model.is_llama() && name == "lm_head.weight" &&
        tensor.shape == file.tensors().at(table).shape &&
        file.read_floats(name, tensor.shape) == file.read_floats(table, tensor.shape)) {
      continue;
    }
    throw FileError(file.path(), "tensor " + name + ": the model has no such parameter");
  }
}

}  // namespace

void prepare_export(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(folder, "cannot be made: " + error.message());
  keel::tensorfile::check_put_file(folder / "config.json");
}

void export_weights(const fs::path& folder, const ParameterLayout& layout,
                    std::span<const float> values) {
  prepare_export(folder);
  const std::vector<Mapping> mappings = MappingBuilder(layout).build();
  std::vector<std::vector<float>> data;
  for (const Mapping& mapping : mappings) {
    std::vector<float>& tensor =
        data.emplace_back(static_cast<size_t>(rows_of(mapping) * columns_of(layout, mapping)));
    for_each_element(layout, mapping,
                     [&](size_t ours, size_t theirs) { tensor[theirs] = values[ours]; });
  }
  std::vector<TensorSource> tensors;
  for (size_t i = 0; i < mappings.size(); ++i) {
    tensors.push_back({mappings[i].name, "F32", shape_of(layout, mappings[i]),
                       std::as_bytes(std::span<const float>(data[i]))});
  }
  // Written first: the config describes the weights.
  replace_file(folder / "config.json", config_json(layout.config()).dump(2) + "\n");
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

std::vector<float> import_weights(const fs::path& path, const ParameterLayout& layout) {
  check_config(path.parent_path() / "config.json", layout.config());
  const SafetensorsFile file(path);
  std::set<std::string> taken;
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.0F);
  for (const Mapping& mapping : MappingBuilder(layout).build()) {
    const std::string name = name_in(file, mapping.name);
    const std::vector<float> tensor = file.read_floats(name, shape_of(layout, mapping));
    taken.insert(name);
    for_each_element(layout, mapping,
                     [&](size_t ours, size_t theirs) { values[ours] = tensor[theirs]; });
  }
  check_left_over(file, taken, layout.config());
  return values;
}

}  // namespace train_gpt
