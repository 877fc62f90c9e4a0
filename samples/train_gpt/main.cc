// SPDX-License-Identifier: Apache-2.0
// Trains a small GPT-2 or Llama on a text, byte by byte, on any device or several at once.
//
//   train_gpt --devices cuda:0 --precision bf16 --layers 8 --width 512 --heads 8
//   train_gpt --model llama --kv-heads 2 --checkpoint run.safetensors --json run.json --svg run.svg
//   train_gpt --model llama --kv-heads 2 --checkpoint run.safetensors --resume --steps 2000
//   train_gpt --devices vulkan:0 --steps 1 --dump b && keel compare a b
//   keel run -n 2 -- train_gpt --devices cuda:0,cuda:1
//   train_gpt --mesh pp=2,dp=2,tp=2 --devices cpu:0,cpu:1,... (eight) --micro-batches 2
//   train_gpt --mesh dp=2 --devices cpu:0,cuda:0 --tokens train.bin --vocabulary 50257
//
// Exit codes: 0, 1 when the run fails, 2 for a mistake in the command line.
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <keel/keel.hpp>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "samples/train_gpt/checkpoint.h"
#include "samples/train_gpt/dump.h"
#include "samples/train_gpt/generate.h"
#include "samples/train_gpt/hugging_face.h"
#include "samples/train_gpt/mesh_checkpoint.h"
#include "samples/train_gpt/mesh_training.h"
#include "samples/train_gpt/options.h"
#include "samples/train_gpt/output.h"
#include "samples/train_gpt/report.h"
#include "samples/train_gpt/roof.h"
#include "samples/train_gpt/trainer.h"
#include "tensorfile/file_error.h"

namespace train_gpt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPromptLength = 64;
constexpr int64_t kHeldOutSequences = 64;
constexpr double kTemperature = 0.7;

std::vector<keel::Device> open_devices(const Options& options) {
  std::vector<keel::Device> devices;
  for (const std::string& name : options.devices) {
    try {
      devices.push_back(keel::Device::find(name));
    } catch (const keel::Error& error) {
      throw std::invalid_argument("--devices " + name + ": " + error.what());
    }
  }
  return devices;
}

// This process's rank among the launcher's processes, which train together; alone without a
// launcher.
struct Place {
  uint32_t rank = 0;
  uint32_t world = 1;
};
Place find_place() {
  try {
    const keel_launch_info info = keel::launch_info();
    return {info.rank, info.world};
  } catch (const keel::Error& error) {
    if (error.status() != KEEL_NOT_FOUND) throw;
    return {};
  }
}

// Gives each process one device; if there are more processes than --devices, assigns devices round
// robin. Only the first process writes files: the others would write the same.
void share(Options& options, const Place& place) {
  if (place.world == 1) return;
  if (!options.dump.empty()) {
    throw std::invalid_argument("--dump: takes one process, with all devices");
  }
  std::vector<std::string> dealt;
  for (size_t rank = 0; rank < place.world; ++rank) {
    dealt.push_back(options.devices[rank % options.devices.size()]);
  }
  options.devices = dealt;
  if (place.rank == 0) return;
  options.json.clear();
  options.svg.clear();
}

// Checked before training: a path that cannot be written must not fail after hours.
void check_export(const Options& options, const Place& place) {
  if (options.export_folder.empty() || place.rank != 0) return;
  try {
    prepare_export(options.export_folder);
  } catch (const keel::tensorfile::FileError& error) {
    throw std::invalid_argument(std::string("--export ") + error.what());
  }
}

Trainer make_trainer(const std::vector<keel::Device>& devices, const Place& place,
                     const Corpus& corpus, const ParameterLayout& layout,
                     const TrainingSettings& settings) {
  if (place.world == 1) return Trainer(devices, corpus, layout, settings);
  const std::span<const keel::Device> own = std::span(devices).subspan(place.rank, 1);
  std::vector<keel::Communicator> ranks;
  ranks.push_back(keel::Communicator::from_environment(own[0]));
  return Trainer(own, std::move(ranks), corpus, layout, settings);
}

// Loads the checkpoint that --resume continues; its settings become those of |options|.
std::optional<TrainingState> load(Options& options, const ParameterLayout& layout,
                                  const Place& place) {
  if (!options.resume) return std::nullopt;
  TrainingState state = load_checkpoint(options.checkpoint, layout);
  const std::string differences = take_settings(options, state);
  if (!differences.empty() && place.rank == 0) {
    std::printf("goes on otherwise than until the checkpoint: %s\n", differences.c_str());
  }
  return state;
}

void begin(const Options& options, const ParameterLayout& layout,
           const std::optional<TrainingState>& state, Trainer& trainer) {
  if (!options.import_file.empty()) trainer.set_values(import_weights(options.import_file, layout));
  if (state) trainer.restore(*state);
}

// Measures the devices before training takes its memory: measuring needs memory too, and a training
// that fits must not fail because of it.
std::vector<DeviceReport> look_at(const std::vector<keel::Device>& devices, Precision precision) {
  std::vector<DeviceReport> reports;
  for (keel::Device device : devices) {
    DeviceReport report = {device.name(), device.info().name, device.chip(), std::nullopt};
    try {
      report.roof = measure_product_roof(device, precision);
    } catch (const keel::Error& error) {
      std::fprintf(stderr, "train_gpt: no MFU: products of %s: %s\n", report.name.c_str(),
                   error.what());
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

void train(const Options& options, const ParameterLayout& layout, Trainer& trainer,
           Report& report) {
  const auto save = [&](auto&& write) {
    const TrainingState state = trainer.state();
    if (trainer.is_first()) write(options.checkpoint, layout, state);
  };
  // Saved before the first step, so that a path that cannot be written fails now.
  if (!options.checkpoint.empty()) save(save_checkpoint);
  Trainer::Observer observe;
  if (!options.dump.empty()) observe = Dump(options.dump, options.dump_steps);
  const Progress progress(options.training.steps);
  const Clock::time_point start = Clock::now();
  size_t interval_begin = 0;
  while (trainer.step() < options.training.steps) {
    report.steps.push_back(trainer.train_step(observe));
    const int64_t step = trainer.step();
    const bool is_last = step == options.training.steps;
    if (trainer.is_first() && (step % options.report_every == 0 || is_last)) {
      report.intervals.push_back(report.interval(interval_begin));
      progress.show(report.intervals.back());
      interval_begin = report.steps.size();
    }
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (options.checkpoint.empty()) continue;
    if (is_last) {
      save(save_checkpoint);
    } else if (step % options.checkpoint_every == 0) {
      save(try_save_checkpoint);
    }
  }
}

// Trains, then evaluates the model.
void fill(Report& report, const Options& options, const Corpus& corpus,
          const ParameterLayout& layout, Trainer& trainer) {
  train(options, layout, trainer, report);
  if (!options.export_folder.empty()) {
    const TrainingState state = trainer.state();
    if (trainer.is_first()) export_weights(options.export_folder, layout, state.values);
  }
  if (!trainer.is_first()) return;
  report.held_out_bits_per_byte = trainer.held_out_bits_per_byte(kHeldOutSequences);
  const std::string_view prompt = corpus.prompt(kPromptLength);
  report.prompt = printable(std::string(prompt));
  report.sample = printable(generate(trainer.stream(), trainer.weights(), prompt,
                                     options.sample_length, kTemperature, options.training.seed));
}

// Reads what --resume continues on a mesh; its settings become those of |options|.
void resume_on_mesh(Options& options, const Place& place, const Corpus* corpus, MeshRun& run) {
  const MeshState found = read_mesh_state(options.checkpoint, options.model);
  if (found.state.text != (corpus == nullptr ? 0 : corpus->fingerprint())) {
    throw std::invalid_argument(
        "the checkpoint's position is one of another text; give the text that it was trained on");
  }
  const auto loader = found.metadata.find("loader");
  if (loader != found.metadata.end()) run.loader_state = loader->second;
  const std::string differences = take_settings(options, found.state);
  if (!differences.empty() && place.rank == 0) {
    std::printf("goes on otherwise than until the checkpoint: %s\n", differences.c_str());
  }
}

// The same with --mesh, whose ranks are the devices or the launcher's processes.
int run_mesh(Options& options, const Place& place, const ParameterLayout& layout,
             const std::vector<keel::Device>& devices, const Output& json, const Output& svg) {
  const bool records = !options.timeline.empty();
  const Output timeline("--timeline", place.rank == 0 ? options.timeline : std::filesystem::path());
  std::optional<Corpus> corpus;
  if (options.mesh.tokens.empty()) {
    corpus.emplace(Corpus::load(options.text, options.model.context));
  }
  MeshRun run{options.mesh,         corpus ? &*corpus : nullptr, layout,         {},
              options.checkpoint,   options.checkpoint_every,    options.resume, {},
              options.report_every, kHeldOutSequences,           records};
  if (options.resume) {
    resume_on_mesh(options, place, run.corpus, run);
  } else if (!options.import_file.empty()) {
    run.initial = import_weights(options.import_file, layout);
  } else if (corpus) {
    run.initial = layout.initial_values(options.training.seed);
  }
  Report report;
  report.model = options.model;
  report.settings = options.training;
  const int64_t tables = options.model.is_llama() ? 2 : 1;  // of tokens
  report.parameters =
      layout.count() + tables * options.model.width * (options.mesh.vocabulary - kVocabulary);
  if (corpus) report.text_bytes = corpus->size();
  if (!corpus) report.unit = "token";
  if (records && place.rank == 0) {
    report.devices = look_at(devices, options.training.precision);
  } else {
    for (const keel::Device& device : devices) {
      report.devices.push_back({device.name(), device.info().name, device.chip(), std::nullopt});
    }
  }
  if (place.rank == 0) print_beginning(report);
  train_on_mesh(devices, place.world == 1 ? -1 : static_cast<int64_t>(place.rank), run, report);
  if (place.rank != 0) return 0;
  if (!options.export_folder.empty()) {
    export_weights(options.export_folder, layout, read_mesh_values(options.checkpoint, layout));
  }
  if (corpus) std::printf("held-out text: %.3f bits per byte\n", report.held_out_bits_per_byte);
  if (report.timeline) {
    std::printf("%s", report.timeline->text.c_str());
    timeline.write([&](std::ostream& out) { out << report.timeline->svg; });
  }
  json.write([&](std::ostream& out) { write_json(out, report); });
  svg.write([&](std::ostream& out) { write_chart(out, report); });
  return 0;
}

int run(Options options) {
  const keel::Runtime runtime;
  const Place place = find_place();
  share(options, place);
  const Output json("--json", options.json);
  const Output svg("--svg", options.svg);
  check_export(options, place);
  const ParameterLayout layout(options.model);
  const std::vector<keel::Device> devices = open_devices(options);
  if (!options.mesh.mesh.empty()) return run_mesh(options, place, layout, devices, json, svg);
  const Corpus corpus = Corpus::load(options.text, options.model.context);

  std::optional<TrainingState> state = load(options, layout, place);
  Report report;
  // Only one process measures: several would disturb each other.
  if (place.rank == 0) report.devices = look_at(devices, options.training.precision);
  Trainer trainer = make_trainer(devices, place, corpus, layout, options.training);
  begin(options, layout, state, trainer);
  state.reset();  // three times as large as the model

  report.model = options.model;
  report.settings = options.training;
  report.parameters = layout.count();
  report.text_bytes = corpus.size();
  report.activation_bytes = trainer.activation_bytes();
  report.first_step = trainer.step() + 1;
  if (trainer.is_first()) print_beginning(report);
  std::exception_ptr failure;
  const auto attempt = [&](const std::function<void()>& action) {
    try {
      action();
    } catch (const std::exception& error) {
      if (failure) std::fprintf(stderr, "train_gpt: %s\n", error.what());
      if (!failure) failure = std::current_exception();
      if (report.failure.empty()) report.failure = error.what();
    }
  };
  attempt([&] { fill(report, options, corpus, layout, trainer); });
  if (!failure && trainer.is_first()) print_results(report);
  // A failed run reports the steps until the failure; without any step, the results of the previous
  // run remain.
  if (!failure || !report.steps.empty()) {
    attempt([&] { json.write([&](std::ostream& out) { write_json(out, report); }); });
    attempt([&] { svg.write([&](std::ostream& out) { write_chart(out, report); }); });
  }
  if (failure) std::rethrow_exception(failure);
  return 0;
}

}  // namespace
}  // namespace train_gpt

int main(int argc, char** argv) {
  constexpr int kFailure = 1;
  constexpr int kUsage = 2;
  try {
    train_gpt::Options options;
    CLI::App app("Trains a small GPT-2 or Llama on a text, byte by byte", "train_gpt");
    train_gpt::declare_options(app, options);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : kUsage;  // 0: --help
    }
    train_gpt::complete(app, options);
    return train_gpt::run(std::move(options));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "train_gpt: %s\n", error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "train_gpt: out of memory\n");
    return kFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", error.what());
    return kFailure;
  }
}
