// Trains a small GPT-2 or Llama on a text, byte by byte, on any device or several at once.
//
//   train_gpt --devices cuda:0 --precision bf16 --layers 8 --width 512 --heads 8
//   train_gpt --model llama --kv-heads 2 --checkpoint run.safetensors --json run.json --svg run.svg
//   train_gpt --model llama --kv-heads 2 --checkpoint run.safetensors --resume --steps 2000
//   train_gpt --devices vulkan:0 --steps 1 --dump b && keel compare a b
//
// Exit codes: 0, 1 when the run fails, 2 for a mistake in the command line.
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <keel/keel.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "samples/train_gpt/checkpoint.h"
#include "samples/train_gpt/dump.h"
#include "samples/train_gpt/generate.h"
#include "samples/train_gpt/hugging_face.h"
#include "samples/train_gpt/options.h"
#include "samples/train_gpt/output.h"
#include "samples/train_gpt/report.h"
#include "samples/train_gpt/roof.h"
#include "samples/train_gpt/trainer.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
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

// What --resume goes on from; its settings become those of |options|.
std::optional<TrainingState> load(Options& options, const ParameterLayout& layout) {
  if (!options.resume) return std::nullopt;
  TrainingState state = load_checkpoint(options.checkpoint, layout);
  const std::string differences = take_settings(options, state);
  if (!differences.empty()) {
    std::printf("goes on otherwise than until the checkpoint: %s\n", differences.c_str());
  }
  return state;
}

void begin(const Options& options, const ParameterLayout& layout,
           const std::optional<TrainingState>& state, Trainer& trainer) {
  if (!options.import_file.empty()) trainer.set_values(import_weights(options.import_file, layout));
  if (state) trainer.restore(*state);
}

void train(const Options& options, const ParameterLayout& layout, Trainer& trainer,
           Report& report) {
  // Before the first step, for a path that cannot be written to show now.
  if (!options.checkpoint.empty()) save_checkpoint(options.checkpoint, layout, trainer.state());
  Trainer::Observer observe;
  if (!options.dump.empty()) observe = Dump(options.dump, options.dump_steps);
  const Progress progress(options.training.steps);
  const Clock::time_point start = Clock::now();
  size_t interval_begin = 0;
  while (trainer.step() < options.training.steps) {
    report.steps.push_back(trainer.train_step(observe));
    const int64_t step = trainer.step();
    const bool is_last = step == options.training.steps;
    if (step % options.report_every == 0 || is_last) {
      report.intervals.push_back(report.interval(interval_begin));
      progress.show(report.intervals.back());
      interval_begin = report.steps.size();
    }
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (options.checkpoint.empty()) continue;
    if (is_last) {
      save_checkpoint(options.checkpoint, layout, trainer.state());
    } else if (step % options.checkpoint_every == 0) {
      try_save_checkpoint(options.checkpoint, layout, trainer.state());
    }
  }
}

// Trains, and looks at what was learned.
void fill(Report& report, const Options& options, const Corpus& corpus,
          const ParameterLayout& layout, Trainer& trainer) {
  train(options, layout, trainer, report);
  if (!options.export_folder.empty()) {
    export_weights(options.export_folder, layout, trainer.state().values);
  }
  report.held_out_bits_per_byte = trainer.held_out_bits_per_byte(kHeldOutSequences);
  const std::string_view prompt = corpus.prompt(kPromptLength);
  report.prompt = printable(std::string(prompt));
  report.sample = printable(generate(trainer.stream(), trainer.weights(), prompt,
                                     options.sample_length, kTemperature, options.training.seed));
}

int run(Options options) {
  const Output json("--json", options.json);
  const Output svg("--svg", options.svg);
  const ParameterLayout layout(options.model);
  const Corpus corpus = Corpus::load(options.text, options.model.context);
  const keel::Runtime runtime;
  const std::vector<keel::Device> devices = open_devices(options);

  std::optional<TrainingState> state = load(options, layout);
  Trainer trainer(devices, corpus, layout, options.training);
  begin(options, layout, state, trainer);
  state.reset();  // as large as the model three times

  Report report;
  report.model = options.model;
  report.settings = options.training;
  report.parameters = layout.count();
  report.text_bytes = corpus.size();
  report.activation_bytes = trainer.activation_bytes();
  report.first_step = trainer.step() + 1;
  for (keel::Device device : devices) {
    report.devices.push_back({device.name(), device.info().name, device.chip(),
                              measure_product_roof(device, options.training.precision)});
  }
  print_beginning(report);
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
  if (!failure) print_results(report);
  // Of a run that failed, the steps until then; without one, the results of the run before stay.
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
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", error.what());
    return kFailure;
  }
}
