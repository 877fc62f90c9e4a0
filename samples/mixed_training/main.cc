// SPDX-License-Identifier: Apache-2.0
// Trains one language model on chips of different vendors at once, and checks that the result
// equals training on one chip.
//
//   mixed_training                               one device of every backend
//   mixed_training --devices cpu:0,vulkan:0 --text book.txt --json run.json
//
// Exit codes: 0, 1 when a check or the run fails, 2 for a mistake in the command line.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <keel/keel.hpp>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "samples/mixed_training/checks.h"
#include "samples/mixed_training/corpus.h"
#include "samples/mixed_training/evaluation.h"
#include "samples/mixed_training/parameters.h"
#include "samples/mixed_training/picture.h"
#include "samples/mixed_training/report.h"
#include "samples/mixed_training/trainer.h"
#include "tensorfile/replacement.h"

namespace mixed_training {
namespace {

// Runs the reference training alone; its kernels are the standard for the others.
constexpr const char* kReferenceDevice = "cpu:0";
constexpr int64_t kSampleLength = 400;
constexpr double kTemperature = 0.6;

struct Options {
  TrainingSettings training;
  std::vector<std::string> devices;  // empty: one of every backend
  std::filesystem::path text;        // empty: kDefaultText
  std::filesystem::path json;        // empty: none
  std::filesystem::path svg;         // empty: none
  std::string title = "Training on chips of several backends at once";
};

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

CLI::Validator multiple_of(int64_t unit) {
  return {[=](std::string& text) -> std::string {
            int64_t value = 0;
            if (CLI::detail::lexical_cast(text, value) && value % unit == 0) return {};
            return text + " is not a multiple of " + std::to_string(unit);
          },
          ""};
}

void declare_options(CLI::App& app, Options& options) {
  TrainingSettings& training = options.training;
  app.add_option("--devices", options.devices,
                 "Devices, separated by commas; default: one of every backend")
      ->delimiter(',');
  app.add_option("--text", options.text,
                 std::string("File to learn; default: all of ") + kDefaultText);
  app.add_option("--json", options.json, "Write all that was measured to this file");
  app.add_option("--svg", options.svg, "Draw the loss and the devices' shares to this file");
  app.add_option("--title", options.title, "Title of the drawing")->capture_default_str();
  app.add_option("--steps", training.steps, "Steps of training")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000'000}))
      ->capture_default_str();
  app.add_option("--batch", training.batch, "Rows of a step, over all devices")
      ->check(CLI::Range(kShareRows, int64_t{65536}))
      ->check(multiple_of(kShareRows))
      ->capture_default_str();
  app.add_option("--hidden", training.hidden, "Width of both hidden layers")
      ->check(CLI::Range(int64_t{8}, int64_t{8192}))
      ->check(multiple_of(8))
      ->capture_default_str();
  app.add_option("--seed", training.seed, "Of parameters, batches and the sample")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", training.learning_rate, "Its peak")
      ->check(finite_between(1e-6, 1))
      ->capture_default_str();
  app.add_option("--report-every", training.report_every, "Steps between two reports")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000'000}))
      ->capture_default_str();
}

// Returns the first device of each backend that computes and has timing events; the CPU comes
// first.
std::vector<std::string> default_devices() {
  std::vector<std::string> names;
  for (const keel_backend_info& backend : keel::backends()) {
    if (backend.device_count == 0) continue;
    const std::string name = std::string(backend.name) + ":0";
    constexpr uint64_t kNeeded = KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_TIMING;
    if ((keel::Device::find(name).info().capabilities & kNeeded) != kNeeded) continue;
    names.insert(name == kReferenceDevice ? names.begin() : names.end(), name);
  }
  return names;
}

std::vector<keel::Device> open_devices(const Options& options) {
  const std::vector<std::string> names =
      options.devices.empty() ? default_devices() : options.devices;
  if (names.empty()) throw std::runtime_error("there is no device; 'keel devices' tells why");
  std::vector<keel::Device> devices;
  for (const std::string& name : names) {
    try {
      devices.push_back(keel::Device::find(name));
    } catch (const keel::Error& error) {
      throw std::invalid_argument("--devices " + name + ": " + error.what());
    }
  }
  const auto least = static_cast<int64_t>(devices.size()) * kShareRows;
  if (options.training.batch < least) {
    throw std::invalid_argument("--batch " + std::to_string(options.training.batch) +
                                " is too small for " + std::to_string(devices.size()) +
                                " devices: it takes " + std::to_string(least));
  }
  return devices;
}

// Checked before training: a path that cannot be written must not cost minutes.
void check_output(const std::string& option, const std::filesystem::path& path) {
  try {
    if (!path.empty()) keel::tensorfile::check_put_file(path);
  } catch (const keel::tensorfile::FileError& error) {
    throw std::invalid_argument(option + " " + error.what());
  }
}

int run(const Options& options) {
  check_output("--json", options.json);
  check_output("--svg", options.svg);
  const Corpus corpus = Corpus::load(options.text, options.training.batch);
  const ParameterLayout layout(options.training.hidden);
  const keel::Runtime runtime;
  const std::vector<keel::Device> devices = open_devices(options);

  Report report;
  report.settings = options.training;
  report.text_bytes = corpus.size();
  report.parameters = layout.size();
  std::printf("%lld bytes of text, %lld parameters, batches of %lld\n",
              static_cast<long long>(report.text_bytes), static_cast<long long>(report.parameters),
              static_cast<long long>(options.training.batch));
  std::vector<std::string> names;
  for (keel::Device device : devices) {
    report.devices.push_back({device.name(), device.info().name, {}});
    names.push_back(device.name());
    std::printf("  %-10s %s\n", names.back().c_str(), report.devices.back().hardware.c_str());
  }

  Trainer trainer(devices, corpus, options.training);
  const Progress progress(options.training.steps, names);
  report.run = trainer.run(options.training.steps,
                           [&](const Interval& interval) { progress.show(interval); });
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    report.devices[rank].communication = trainer.stats(rank);
  }
  Model& model = trainer.model(0);
  report.held_out_bits_per_byte = held_out_bits_per_byte(model, corpus);
  report.prompt = printable(std::string(corpus.prompt()));
  report.sample = printable(
      generate(model, corpus.prompt(), kSampleLength, kTemperature, options.training.seed));

  report.reference_device = kReferenceDevice;
  const keel::Device reference_devices[] = {keel::Device::find(kReferenceDevice)};
  Trainer reference(reference_devices, corpus, options.training);
  report.reference = reference.run(std::min(kCheckSteps, options.training.steps), nullptr);
  report.checks = compare(layout, report.run, report.reference);

  print_results(report);
  if (!options.json.empty()) {
    std::ostringstream json;
    write_json(json, report);
    keel::tensorfile::put_file(options.json, json.str());
  }
  if (!options.svg.empty()) {
    keel::tensorfile::put_file(options.svg, picture(report, options.title));
  }
  return report.passed() ? 0 : 1;
}

}  // namespace
}  // namespace mixed_training

int main(int argc, char** argv) {
  constexpr int kFailure = 1;
  constexpr int kUsage = 2;
  try {
    mixed_training::Options options;
    CLI::App app("Trains a byte-level language model on chips of different vendors at once",
                 "mixed_training");
    mixed_training::declare_options(app, options);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : kUsage;  // 0: --help
    }
    return mixed_training::run(options);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "mixed_training: %s\n", error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "mixed_training: out of memory\n");
    return kFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mixed_training: %s\n", error.what());
    return kFailure;
  }
}
