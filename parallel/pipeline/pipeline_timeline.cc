// SPDX-License-Identifier: Apache-2.0
// pipeline_timeline: runs pipeline schedules on paced emulated chips that compute nothing, and
// prints each schedule's bubble beside its formula; with --svg, draws the last step.
//
//   pipeline_timeline --ranks 4 --micro-batches 8 --svg timeline
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <keel/parallel/pipeline.hpp>
#include <keel/parallel/report.hpp>
#include <memory>
#include <string>
#include <vector>

#include "parallel/testing/linear_stage.h"
#include "parallel/testing/thread_ranks.h"

namespace {

using namespace keel;
using namespace keel::parallel;

constexpr int64_t kWidth = 64;         // matrices of width * width, inputs likewise
constexpr int64_t kLayersOfRank = 12;  // divisible by 1 to 4 chunks
constexpr double kLayerFlops = 2.0 * kWidth * kWidth * kWidth;

struct Options {
  std::vector<std::string> schedules = {"1f1b", "interleaved", "zero-bubble"};
  uint32_t ranks = 4;
  uint32_t chunks = 2;
  uint32_t micro_batches = 8;
  double pass_ms = 12;  // a forward pass through one rank's layers
  int steps = 5;
  std::string svg;
};

// A chip on which a layer takes what |options| asks for, and messages next to nothing.
void use_paced_chips(const Options& options, const std::filesystem::path& profile) {
  const double seconds = 1e-3 * options.pass_ms / kLayersOfRank;
  std::ofstream(profile) << "{\"name\": \"pipeline timeline\", \"memory_gb_per_s\": 1000,"
                         << "\"copy_gb_per_s\": {\"host_to_device\": 25, \"device_to_host\": 25, "
                         << "\"peer\": 25}, \"launch_latency_us\": 5, \"tflops\": {\"float32\": "
                         << kLayerFlops / seconds * 1e-12 << "}}\n";
  setenv("KEEL_SIM_DEVICES", std::to_string(options.ranks).c_str(), 1);
  setenv("KEEL_SIM_PROFILE", profile.c_str(), 1);
  setenv("KEEL_SIM_SETTINGS", "compute=none", 1);
}

// One rank's steps; returns all ranks' last step, and the idle share of each step.
std::vector<RankSteps> run_rank(const Options& options, const PipelineSchedule& schedule,
                                uint32_t rank, Communicator& world, Device device,
                                std::vector<double>* idle) {
  Stream stream(device);
  const int64_t layers = kLayersOfRank / schedule.chunks;
  const int64_t total = layers * schedule.stages();
  std::vector<std::unique_ptr<LinearStage>> stages;
  std::vector<Stage*> chunks;
  for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int64_t first = layers * (chunk * schedule.ranks + rank);
    stages.push_back(std::make_unique<LinearStage>(stream, first, layers, total, kWidth, kWidth));
    chunks.push_back(stages.back().get());
  }
  Pipeline pipeline(&world, schedule, chunks);
  const std::vector<int32_t> numbers(kWidth * kWidth, 1);
  StepRecorder recorder;
  std::vector<RankSteps> all;
  for (int step = 0; step <= options.steps; ++step) {  // the first warms up
    world.barrier(stream);
    stream.synchronize();
    recorder.start(stream);
    pipeline.step({.load = [&](Stage& stage, size_t slot,
                               uint32_t m) { stage.set_batch(slot, numbers, numbers, m); },
                   .recorder = &recorder});
    stream.synchronize();
    RankSteps own;
    own.device = device.name();
    own.spans = recorder.finish();
    own.model_flops = 3.0 * kLayerFlops * kLayersOfRank * options.micro_batches;
    own.peak_flops_per_s = kLayerFlops * kLayersOfRank / (1e-3 * options.pass_ms);
    all = gather_steps(world, stream, own);
    if (step > 0) idle->push_back(1 - analyse(all, schedule.bubble()).mean.compute);
  }
  return all;
}

int run(const Options& options) {
  for (const std::string& name : options.schedules) {
    const bool is_interleaved = name.starts_with("interleaved");
    const PipelineSchedule schedule = make_schedule(
        name, options.ranks, is_interleaved ? options.chunks : 1, options.micro_batches);
    std::vector<Device> devices;
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      devices.push_back(Device::find("sim:" + std::to_string(rank)));
    }
    std::vector<RankSteps> last;
    std::vector<double> idle;
    const std::vector<std::string> failures =
        run_thread_ranks(devices, [&](uint32_t rank, Communicator& world, Device device) {
          std::vector<double> ignored;
          std::vector<RankSteps> all =
              run_rank(options, schedule, rank, world, device, rank == 0 ? &idle : &ignored);
          if (rank == 0) last = std::move(all);
        });
    for (size_t rank = 0; rank < failures.size(); ++rank) {
      if (failures[rank].empty()) continue;
      std::fprintf(stderr, "pipeline_timeline: rank %zu: %s\n", rank, failures[rank].c_str());
      return 1;
    }
    std::sort(idle.begin(), idle.end());
    std::printf(
        "%s: %u ranks, %u chunks, %u micro-batches: bubble %.1f %% (%.1f to %.1f in %zu "
        "steps), formula %.1f %%\n",
        name.c_str(), schedule.ranks, schedule.chunks, schedule.micro_batches,
        100 * idle[idle.size() / 2], 100 * idle.front(), 100 * idle.back(), idle.size(),
        100 * schedule.bubble());
    std::printf("%s", text(analyse(last, schedule.bubble())).c_str());
    if (options.svg.empty()) continue;
    const std::string path = options.svg + "-" + name + ".svg";
    std::ofstream file(path);
    file << svg(last, name + ": " + std::to_string(schedule.ranks) + " paced chips, " +
                          std::to_string(schedule.micro_batches) + " micro-batches");
    if (!file.flush()) {
      std::fprintf(stderr, "pipeline_timeline: %s cannot be written\n", path.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Pipeline schedules on paced emulated chips: bubble and timeline");
  app.add_option("--schedule", options.schedules,
                 "1f1b, 1f1b-apart, interleaved, interleaved-apart, zero-bubble");
  app.add_option("--ranks", options.ranks, "chips")->check(CLI::Range(2, 32));
  app.add_option("--chunks", options.chunks, "stages of a rank, interleaved")
      ->check(CLI::Range(1, 4));
  app.add_option("--micro-batches", options.micro_batches)->check(CLI::Range(1, 4096));
  app.add_option("--pass-ms", options.pass_ms, "a forward pass through one rank's layers")
      ->check(CLI::Range(0.05, 1e4));
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000));
  app.add_option("--svg", options.svg, "draws the last step to NAME-SCHEDULE.svg");
  CLI11_PARSE(app, argc, argv);
  const std::filesystem::path profile = std::filesystem::temp_directory_path() /
                                        ("keel-pipeline-" + std::to_string(getpid()) + ".json");
  int result = 1;
  try {
    use_paced_chips(options, profile);
    keel_init_options init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    init.backends = "sim";
    const Runtime runtime(init);
    result = run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline_timeline: %s\n", error.what());
  }
  std::error_code ignored;
  std::filesystem::remove(profile, ignored);
  return result;
}
