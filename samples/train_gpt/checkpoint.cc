// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>

#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::Metadata;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorSource;
using keel::tensorfile::write_safetensors;

constexpr const char* kFormat = "keel train_gpt 1";

// A flat buffer of the state, and the prefix of its parameters' names in the file.
struct Part {
  const char* prefix;
  std::vector<float> TrainingState::*floats;
};
constexpr Part kParts[] = {{"", &TrainingState::values},
                           {"adamw.first.", &TrainingState::first_moment},
                           {"adamw.second.", &TrainingState::second_moment}};

template <typename Integer>
Integer number(const SafetensorsFile& file, const std::string& key) {
  const std::string& text = file.metadata(key);
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw FileError(file.path(), "metadata " + key + ": '" + text + "' is not a number");
  }
  return value;
}

// Larger counts than any training reaches would overflow positions in the data.
void check_count(const SafetensorsFile& file, const std::string& key, int64_t count) {
  constexpr int64_t kLargest = int64_t{1} << 53;
  if (count < 0 || count > kLargest) {
    throw FileError(file.path(), "metadata " + key + ": " + std::to_string(count) +
                                     " is not from 0 to " + std::to_string(kLargest));
  }
}

void check_origin(const SafetensorsFile& file, const ParameterLayout& layout) {
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != kFormat) {
    throw FileError(file.path(),
                    "is not a checkpoint of train_gpt; weights of the Hugging Face "
                    "layout are taken by --import");
  }
  const std::string& model = file.metadata("model");
  ModelConfig config;
  try {
    config = config_from_json(model);
  } catch (const std::runtime_error& error) {
    throw FileError(file.path(), "metadata model: " + std::string(error.what()));
  }
  if (config != layout.config()) {
    throw FileError(file.path(), "is a checkpoint of another model, " + model + ", not of " +
                                     to_json(layout.config()));
  }
}

void load_settings(const SafetensorsFile& file, TrainingState& state) {
  const std::string& settings = file.metadata("settings");
  try {
    state.settings = settings_from_json(settings);
  } catch (const std::runtime_error& error) {
    throw FileError(file.path(), "metadata settings: " + std::string(error.what()));
  }
  state.settings->seed = state.seed;
  state.devices = number<int64_t>(file, "devices");
}

}  // namespace

void save_checkpoint(const fs::path& path, const ParameterLayout& layout,
                     const TrainingState& state) {
  std::vector<TensorSource> tensors;
  for (const Part& part : kParts) {
    const std::span<const float> floats = state.*part.floats;
    for (const Parameter& parameter : layout.all()) {
      tensors.push_back({part.prefix + parameter.name, "F32", parameter.shape,
                         std::as_bytes(floats.subspan(static_cast<size_t>(parameter.offset),
                                                      static_cast<size_t>(parameter.size)))});
    }
  }
  Metadata metadata = {{"format", kFormat},
                       {"model", to_json(layout.config())},
                       {"step", std::to_string(state.step)},
                       {"next_sequence", std::to_string(state.next_sequence)},
                       {"seed", std::to_string(state.seed)},
                       {"text", std::to_string(state.text)}};
  if (state.settings) {
    metadata["settings"] = to_json(*state.settings);
    metadata["devices"] = std::to_string(state.devices);
  }
  write_safetensors(path, tensors, metadata);
}

bool try_save_checkpoint(const fs::path& path, const ParameterLayout& layout,
                         const TrainingState& state) {
  try {
    save_checkpoint(path, layout, state);
    return true;
  } catch (const FileError& error) {
    std::fprintf(stderr, "train_gpt: no checkpoint of step %lld, the training goes on: %s\n",
                 static_cast<long long>(state.step), error.what());
    return false;
  }
}

TrainingState load_checkpoint(const fs::path& path, const ParameterLayout& layout) {
  const SafetensorsFile file(path);
  check_origin(file, layout);
  TrainingState state;
  state.step = number<int64_t>(file, "step");
  state.next_sequence = number<int64_t>(file, "next_sequence");
  state.seed = number<uint64_t>(file, "seed");
  state.text = number<uint64_t>(file, "text");
  check_count(file, "step", state.step);
  check_count(file, "next_sequence", state.next_sequence);
  if (file.metadata().count("settings") != 0) load_settings(file, state);
  for (const Part& part : kParts) {
    std::vector<float>& floats = state.*part.floats;
    floats.assign(static_cast<size_t>(layout.size()), 0.0F);
    for (const Parameter& parameter : layout.all()) {
      const std::vector<float> values =
          file.read_floats(part.prefix + parameter.name, parameter.shape);
      std::copy(values.begin(), values.end(), floats.begin() + parameter.offset);
    }
  }
  return state;
}

}  // namespace train_gpt
