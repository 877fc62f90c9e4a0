#include "samples/train_gpt/hugging_face.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorSource;
using keel::tensorfile::write_safetensors;

// Rows of a parameter; of a vector, each is one element.
struct Piece {
  size_t parameter;
  int64_t first_row;
  int64_t rows;
};

// A tensor of theirs: pieces of ours one below the other, and that transposed where it is the
// weight of a Conv1D, which GPT-2 stores as [inputs, outputs].
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

// Calls |visit| with the place of each element in the flat buffer and in their tensor.
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

// The name that |file| has the tensor under.
std::string name_in(const SafetensorsFile& file, const std::string& name) {
  const std::string prefixed = "transformer." + name;
  if (!file.has(name) && file.has(prefixed)) return prefixed;
  if (name == "lm_head.weight" && !file.has(name)) return "model.embed_tokens.weight";
  return name;
}

}  // namespace

void export_weights(const fs::path& folder, const ParameterLayout& layout,
                    std::span<const float> values) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(folder, "cannot be made: " + error.message());
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
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  std::ofstream file(folder / "config.json");
  file << config_json(layout.config()).dump(2) << '\n' << std::flush;
  if (!file) throw FileError(folder / "config.json", "cannot be written");
}

std::vector<float> import_weights(const fs::path& path, const ParameterLayout& layout) {
  const SafetensorsFile file(path);
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.0F);
  for (const Mapping& mapping : MappingBuilder(layout).build()) {
    const std::vector<float> tensor =
        file.read_floats(name_in(file, mapping.name), shape_of(layout, mapping));
    for_each_element(layout, mapping,
                     [&](size_t ours, size_t theirs) { values[ours] = tensor[theirs]; });
  }
  return values;
}

}  // namespace train_gpt
