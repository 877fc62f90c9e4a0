// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/options.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "samples/train_gpt/data.h"

namespace train_gpt {
namespace {

constexpr int64_t kMany = 1'000'000'000;

// CLI11's own Range accepts NaN.
CLI::Validator finite_between(double low, double high) {
  return {[=](std::string& text) -> std::string {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};
            return "'" + text + "' is not a number from " + CLI::detail::to_string(low) + " to " +
                   CLI::detail::to_string(high);
          },
          "NUMBER"};
}

void declare_model(CLI::App& app, ModelConfig& model) {
  static const std::map<std::string, Architecture> kArchitectures = {
      {"gpt2", Architecture::kGpt2}, {"llama", Architecture::kLlama}};
  const auto count = [&](const char* option, int64_t& value, int64_t largest, const char* text) {
    app.add_option(option, value, text)
        ->check(CLI::Range(int64_t{1}, largest))
        ->capture_default_str();
  };
  app.add_option("--model", model.architecture, "gpt2 or llama; default: gpt2")
      ->transform(CLI::CheckedTransformer(kArchitectures));
  count("--layers", model.layers, 1000, "Layers");
  count("--width", model.width, 65536, "Features of a token");
  count("--heads", model.heads, 1024, "Heads of attention");
  app.add_option("--kv-heads", model.kv_heads, "Heads of keys, of llama; default: as --heads")
      ->check(CLI::Range(1, 1024));
  app.add_option("--mlp-width", model.mlp_width,
                 "Width of the MLP; default: 4 times --width, in llama 8/3 of it")
      ->check(CLI::Range(1, 1 << 20));
  count("--context", model.context, 1 << 20, "Bytes of a sequence");
}

void declare_training(CLI::App& app, Options& options) {
  static const std::map<std::string, Precision> kPrecisions = {{"fp32", Precision::kFloat32},
                                                               {"bf16", Precision::kBFloat16}};
  TrainingSettings& training = options.training;
  OptimizerSettings& optimizer = training.optimizer;
  app.add_option("--steps", training.steps, "Steps of training, those of a checkpoint included")
      ->check(CLI::Range(int64_t{1}, kMany))
      ->capture_default_str();
  app.add_option("--batch", training.batch, "Sequences of a step, over all devices")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  app.add_option("--precision", training.precision,
                 "What products read: fp32 or bf16, main weights are fp32; default: fp32")
      ->transform(CLI::CheckedTransformer(kPrecisions));
  app.add_option("--seed", training.seed, "Of weights, batches and the sample")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", optimizer.learning_rate, "Its peak")
      ->check(finite_between(1e-8, 1))
      ->capture_default_str();
  app.add_option("--warmup", optimizer.warmup, "Steps up to the peak")
      ->check(CLI::Range(int64_t{0}, kMany))
      ->capture_default_str();
  app.add_option("--weight-decay", optimizer.weight_decay, "Of matrices")
      ->check(finite_between(0, 10))
      ->capture_default_str();
  app.add_option("--clip", optimizer.clip, "Largest norm of the gradient; 0: any")
      ->check(finite_between(0, 1e6))
      ->capture_default_str();
}

void declare_mesh(CLI::App& app, MeshSettings& mesh) {
  app.add_option("--mesh", mesh.mesh,
                 "Divide the training over all devices, by axes such as pp=2,dp=2,tp=2: pipeline "
                 "stages, parts of the batch, parts of each matrix")
      ->type_name("AXES");
  const auto count = [&](const char* option, int64_t& value, const char* text) {
    app.add_option(option, value, text)
        ->check(CLI::Range(int64_t{1}, int64_t{65536}))
        ->capture_default_str();
  };
  count("--micro-batches", mesh.micro_batches, "With --mesh: parts of a device's sequences");
  count("--chunks", mesh.chunks, "With --mesh: parts of a product, for overlap on axis tp");
  app.add_option("--sharding", mesh.sharding, "With --mesh: level of ZeRO on axis dp")
      ->check(CLI::Range(int64_t{0}, int64_t{3}))
      ->capture_default_str();
  app.add_option("--recompute", mesh.recompute, "With --mesh: none, selective or full")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
  app.add_option("--schedule", mesh.schedule,
                 "With --mesh: passes on axis pp: fill-drain, 1f1b, 1f1b-apart, interleaved (two "
                 "chunks a rank), interleaved-apart or zero-bubble")
      ->capture_default_str();
  app.add_option("--balance-every", mesh.balance_every,
                 "With --mesh: steps after which the batch is divided again on axis dp, by the "
                 "speeds that the ranks have shown; 0: equal parts")
      ->check(CLI::Range(int64_t{0}, kMany))
      ->capture_default_str();
  app.add_flag("--sequence-parallel", mesh.sequence_parallel,
               "With --mesh: divide rows on axis tp between products");
  app.add_option("--tokens", mesh.tokens,
                 "With --mesh: files of tokens to learn in the place of --text, separated by "
                 "commas; each rank reads its share ahead")
      ->delimiter(',')
      ->type_name("FILES");
  app.add_option("--token-bytes", mesh.token_bytes, "With --tokens: bytes of a token, 2 or 4")
      ->check(CLI::IsMember({int64_t{2}, int64_t{4}}))
      ->capture_default_str();
  app.add_option("--vocabulary", mesh.vocabulary, "With --tokens: number of tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
}

// Combinations that the mesh's trainer lacks, and options that need a mesh.
void check_mesh(const CLI::App& app, const Options& options) {
  const bool has_mesh = !options.mesh.mesh.empty();
  const auto refuse = [&](std::initializer_list<const char*> names, const std::string& reason) {
    for (const char* name : names) {
      if (app.count(name) > 0) throw std::invalid_argument(std::string(name) + ": " + reason);
    }
  };
  if (has_mesh) {
    refuse({"--dump"}, "not with --mesh, which has no such files");
    if (options.checkpoint.empty()) refuse({"--export"}, "takes --checkpoint with --mesh");
  } else {
    refuse({"--micro-batches", "--chunks", "--sharding", "--recompute", "--schedule",
            "--sequence-parallel", "--balance-every", "--tokens", "--timeline"},
           "takes --mesh");
  }
  if (options.mesh.tokens.empty()) {
    refuse({"--token-bytes", "--vocabulary"}, "takes --tokens");
  } else {
    refuse({"--text", "--import", "--export"}, "not with --tokens");
  }
}

}  // namespace

void declare_options(CLI::App& app, Options& options) {
  app.add_option(
         "--devices", options.devices,
         "Devices, separated by commas, each with its part of the batch; default: cpu:0. Under "
         "a launcher, as keel run, each process takes one of them")
      ->delimiter(',');
  app.add_option("--text", options.text,
                 std::string("File to learn; default: all of ") + kDefaultText);
  declare_model(app, options.model);
  declare_training(app, options);
  declare_mesh(app, options.mesh);
  app.add_option("--checkpoint", options.checkpoint,
                 "Keep the training in this file; with --mesh a folder, which a mesh of any shape "
                 "goes on from, written on SIGUSR1 too")
      ->type_name("FILE");
  app.add_option("--checkpoint-every", options.checkpoint_every, "Steps between two checkpoints")
      ->check(CLI::Range(int64_t{1}, kMany))
      ->capture_default_str();
  app.add_flag("--resume", options.resume,
               "Go on from the file of --checkpoint, with its settings but those that are given");
  app.add_option("--import", options.import_file,
                 "Begin with the weights of this safetensors file of the Hugging Face layout")
      ->type_name("FILE");
  app.add_option("--export", options.export_folder,
                 "At the end, write the weights in the Hugging Face layout")
      ->type_name("FOLDER");
  app.add_option("--json", options.json, "Write all that was measured to this file")
      ->type_name("FILE");
  app.add_option("--svg", options.svg, "Draw the loss to this file")->type_name("FILE");
  app.add_option("--timeline", options.timeline,
                 "With --mesh: draw the last step to this file, and report where its time went")
      ->type_name("FILE");
  app.add_option("--dump", options.dump,
                 "Write what the first steps calculate to this folder, for keel compare")
      ->type_name("FOLDER");
  app.add_option("--dump-steps", options.dump_steps, "Steps of --dump")
      ->check(CLI::Range(int64_t{1}, kMany))
      ->capture_default_str();
  app.add_option("--report-every", options.report_every, "Steps between two reports")
      ->check(CLI::Range(int64_t{1}, kMany))
      ->capture_default_str();
  app.add_option("--sample-length", options.sample_length, "Bytes to write at the end")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}))
      ->capture_default_str();
}

void complete(const CLI::App& app, Options& options) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) options.given.insert(option->get_name());
  }
  ModelConfig& model = options.model;
  if (app.count("--kv-heads") == 0) model.kv_heads = model.heads;
  if (app.count("--mlp-width") == 0) {
    // Swiglu has a third matrix: two thirds of the width give the same number of parameters.
    model.mlp_width = model.is_llama() ? (8 * model.width / 3 + 63) / 64 * 64 : 4 * model.width;
  }
  if (options.devices.empty()) throw std::invalid_argument("--devices: none given");
  if (options.resume && options.checkpoint.empty()) {
    throw std::invalid_argument("--resume takes --checkpoint, the file to go on from");
  }
  std::error_code error;
  if (!options.resume && !options.checkpoint.empty() &&
      std::filesystem::exists(options.checkpoint, error)) {
    throw std::invalid_argument("--checkpoint " + options.checkpoint.string() +
                                ": is there already; --resume goes on from it");
  }
  if (!options.dump.empty() && std::filesystem::exists(options.dump, error) &&
      !std::filesystem::is_empty(options.dump, error)) {
    throw std::invalid_argument("--dump " + options.dump.string() +
                                ": is there already, and not an empty folder");
  }
  if (options.resume && !options.import_file.empty()) {
    throw std::invalid_argument("--resume and --import: a training begins with one of them");
  }
  check(model);
  check_mesh(app, options);
}

std::string take_settings(Options& options, const TrainingState& state) {
  using nlohmann::ordered_json;
  std::string differences;
  const auto differ = [&](const std::string& now, const std::string& before) {
    differences += (differences.empty() ? "" : "; ") + now + ", not " + before;
  };
  const uint64_t seed = options.training.seed;
  if (state.settings) {
    ordered_json ours = json_of(options.training);
    const ordered_json theirs = json_of(*state.settings);
    for (const auto& [key, value] : theirs.items()) {
      if (key == "seed") continue;
      std::string option = "--" + key;
      std::replace(option.begin(), option.end(), '_', '-');
      if (options.given.count(option) == 0) {
        ours[key] = value;
      } else if (ours[key] != value) {
        differ(option + " " + ours[key].dump(), value.dump());
      }
    }
    options.training = settings_from_json(ours.dump());
    const auto devices = static_cast<int64_t>(options.devices.size());
    if (devices != state.devices) {
      differ(std::to_string(devices) + " devices", std::to_string(state.devices));
    }
  }
  // The seed belongs to the position in the data: another seed would enter the middle of another
  // epoch.
  options.training.seed = state.seed;
  if (options.given.count("--seed") != 0 && seed != state.seed) {
    differ("the checkpoint's --seed " + std::to_string(state.seed), std::to_string(seed));
  }
  return differences;
}

}  // namespace train_gpt
