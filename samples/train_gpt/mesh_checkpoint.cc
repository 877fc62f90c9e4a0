// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/mesh_checkpoint.h"

#include <charconv>
#include <span>
#include <stdexcept>
#include <string>

namespace train_gpt {
namespace {

namespace parallel = keel::parallel;

constexpr const char* kFormat = "keel train_gpt mesh 1";

template <typename Integer>
Integer number(const parallel::CheckpointMetadata& metadata, const char* key) {
  const std::string& text = metadata.at(key);
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(std::string("metadata ") + key + ": '" + text + "' is not a number");
  }
  return value;
}

TrainingState state_of(const parallel::Checkpoint& checkpoint, const ModelConfig& model) {
  const parallel::CheckpointMetadata& metadata = checkpoint.metadata();
  const auto format = metadata.find("format");
  if (format == metadata.end() || format->second != kFormat) {
    throw std::runtime_error("is not a checkpoint of train_gpt --mesh");
  }
  for (const char* key : {"model", "settings", "seed", "text", "devices"}) {
    if (!metadata.contains(key)) throw std::runtime_error(std::string("metadata lack ") + key);
  }
  if (config_from_json(metadata.at("model")) != model) {
    throw std::runtime_error("is a checkpoint of another model, " + metadata.at("model") +
                             ", not of " + to_json(model));
  }
  TrainingState state;
  state.step = checkpoint.step();
  state.seed = number<uint64_t>(metadata, "seed");
  state.text = number<uint64_t>(metadata, "text");
  state.devices = number<int64_t>(metadata, "devices");
  state.settings = settings_from_json(metadata.at("settings"));
  state.settings->seed = state.seed;
  return state;
}

}  // namespace

parallel::CheckpointMetadata mesh_metadata(const ModelConfig& model,
                                           const TrainingSettings& settings, uint64_t text,
                                           size_t devices) {
  return {{"format", kFormat},
          {"model", to_json(model)},
          {"settings", to_json(settings)},
          {"seed", std::to_string(settings.seed)},
          {"text", std::to_string(text)},
          {"devices", std::to_string(devices)}};
}

MeshState read_mesh_state(const std::filesystem::path& folder, const ModelConfig& model) {
  try {
    const parallel::Checkpoint checkpoint = parallel::Checkpoint::open(folder);
    return {state_of(checkpoint, model), checkpoint.metadata()};
  } catch (const std::exception& error) {
    throw std::runtime_error("--checkpoint " + folder.string() + ": " + error.what());
  }
}

std::vector<float> read_mesh_values(const std::filesystem::path& folder,
                                    const ParameterLayout& layout) {
  const parallel::Checkpoint checkpoint = parallel::Checkpoint::open(folder);
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.0F);
  const auto read = [&](const std::string& name, std::vector<int64_t> shape, int64_t offset,
                        int64_t size) {
    parallel::TensorPiece piece;
    piece.name = name;
    piece.shape = std::move(shape);
    checkpoint.read(piece, std::as_writable_bytes(std::span(values).subspan(
                               static_cast<size_t>(offset), static_cast<size_t>(size))));
  };
  for (const Parameter& parameter : layout.all()) {
    const size_t up = parameter.name.find(".up.");
    if (!layout.config().is_llama() || up == std::string::npos) {
      read(parameter.name, parameter.shape, parameter.offset, parameter.size);
      continue;
    }
    // This sample has Llama's gate and up in one matrix, gate's rows first.
    std::vector<int64_t> half = parameter.shape;
    half[0] /= 2;
    std::string gate = parameter.name;
    gate.replace(up, 4, ".gate.");
    read(gate, half, parameter.offset, parameter.size / 2);
    read(parameter.name, half, parameter.offset + parameter.size / 2, parameter.size / 2);
  }
  return values;
}

}  // namespace train_gpt
