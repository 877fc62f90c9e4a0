// SPDX-License-Identifier: Apache-2.0
// keel_bench_parallel: figures of libkeel_parallel. Emulated chips take the time of their work and
// leave the arithmetic out (compute=none), so that a laptop's cores carry eight of them.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/ipc/process.h"
#include "base/strict_json.h"
#include "bench/harness.h"
#include "bench/machine.h"
#include "bench/parallel_job.h"
#include "bench/report.h"

namespace keel::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Options {
  std::vector<std::string> filters;
  int rounds = 7;
  std::string json, markdown;
  std::string programs = ".";
};

// A figure's result, with the median seconds of its contenders.
struct Result {
  std::string name;
  std::string about;
  std::vector<std::pair<std::string, double>> seconds;
  Estimate result{0, 0, 0};
  std::string unit;  // of the result
  std::string target;
  bool met = false;
  std::string skipped;
};

// A temporary folder; the destructor deletes it.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "keel-bench-parallel-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Devices of a chip with these rates, which computes nothing.
std::vector<Device> chips(const Folder& folder, const std::string& name, int count,
                          double teraflops, double memory_gb, double link_gb, double host_gb) {
  const fs::path profile = folder.path() / (name + ".json");
  std::ofstream(profile) << ordered_json{
      {"name", name},
      {"memory_gb_per_s", memory_gb},
      {"copy_gb_per_s",
       {{"host_to_device", host_gb}, {"device_to_host", host_gb}, {"peer", link_gb}}},
      {"launch_latency_us", 5},
      {"tflops",
       {{"float32",
         teraflops}}}}.dump();
  return load_chips({{"devices", std::to_string(count)},
                     {"profile", profile.string()},
                     {"memory_mib", "4096"},
                     {"compute", "none"}});
}

parallel::Settings llama(int64_t layers, int64_t width, int64_t context, int64_t batch) {
  parallel::Settings settings;
  settings.model.architecture = parallel::Architecture::kLlama;
  settings.model.layers = layers;
  settings.model.width = width;
  settings.model.mlp_width = (8 * width / 3 + 31) / 32 * 32;
  settings.model.context = context;
  settings.batch = batch;
  return settings;
}

std::vector<double> medians(const std::vector<std::vector<double>>& seconds) {
  std::vector<double> all;
  for (const std::vector<double>& of_contender : seconds) all.push_back(median(of_contender));
  return all;
}

// Steps of all jobs in turn; by job, then by round. The first round warms up.
std::vector<std::vector<double>> take_turns(const std::vector<ParallelJob*>& jobs, int rounds) {
  std::vector<std::vector<double>> seconds(jobs.size());
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      const size_t turn = (i + static_cast<size_t>(round)) % jobs.size();
      const double time = jobs[turn]->step();
      if (round > 0) seconds[turn].push_back(time);
    }
  }
  return seconds;
}

// ---- tensor parallelism: communication behind products

Result tensor_overlap(const Options& options, int ranks) {
  const Folder folder;
  // The first gather and the last reduce of n chunks hide behind nothing: 1/n of them.
  constexpr int64_t kChunks = 8;
  // The A800-like profile, divided by ten more: steps of 1 to 3 s, in which the host's own work
  // weighs little.
  constexpr double kTeraflops = 0.00975, kMemory = 1.02, kLink = 0.1;
  const std::string axes = "tp=" + std::to_string(ranks);
  parallel::Settings settings = llama(2, 512, 256, 4);
  settings.sequence_parallel = true;
  parallel::Settings chunked = settings;
  chunked.chunks = kChunks;
  const std::string name = "tensor-" + std::to_string(ranks);
  ParallelJob whole(chips(folder, name + "-whole", ranks, kTeraflops, kMemory, kLink, 5), axes,
                    settings);
  ParallelJob cut(chips(folder, name + "-cut", ranks, kTeraflops, kMemory, kLink, 5), axes,
                  chunked);
  // Links as fast as none is: what remains is computation.
  ParallelJob alone(chips(folder, name + "-alone", ranks, kTeraflops, kMemory, 1000, 1000), axes,
                    settings);
  const auto seconds = take_turns({&whole, &cut, &alone}, options.rounds);
  std::vector<double> hidden;
  for (size_t round = 0; round < seconds[0].size(); ++round) {
    hidden.push_back((seconds[0][round] - seconds[1][round]) /
                     (seconds[0][round] - seconds[2][round]));
  }
  const std::vector<double> middle = medians(seconds);
  const std::string chunks = std::to_string(kChunks) + " chunks";
  Result result;
  result.name = "tensor_overlap/tp" + std::to_string(ranks);
  result.about = "share of the communication of axis tp that " + chunks + " hide behind products";
  result.seconds = {
      {"whole products", middle[0]}, {chunks, middle[1]}, {"without communication", middle[2]}};
  result.result = estimate_median(hidden);
  result.unit = "of the communication";
  result.target = "at least 0.85";
  result.met = result.result.median >= 0.85;
  return result;
}

// ---- checkpoints

Result checkpoint(const Options& options, bool paced) {
  const Folder folder;
  Result result;
  result.name = std::string("checkpoint/") + (paced ? "paced" : "cpu");
  result.about = "time of a step while a checkpoint is written, to the time of a step without one";
  result.target = "at most 1.03";
  std::vector<Device> devices;
  parallel::Settings settings = llama(4, 512, 128, 8);
  settings.sharding = 1;  // each rank writes a half
  if (paced) {
    devices = chips(folder, "checkpoint", 2, 0.02, 20, 2, 5);
  } else {
    settings.model.width = 256;
    settings.model.mlp_width = 704;
    devices = {Device::find("cpu:0"), Device::find("cpu:1")};
  }
  ParallelJob job(devices, "dp=2", settings, {}, folder.path() / "sets");
  job.step_behind_save();
  job.wait_for_save();
  std::vector<double> plain, saving, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    const double without = job.step();
    const double with = job.step_behind_save();
    job.wait_for_save();
    plain.push_back(without);
    saving.push_back(with);
    ratios.push_back(with / without);
  }
  result.seconds = {{"without", median(plain)}, {"while it is written", median(saving)}};
  result.result = estimate_median(ratios);
  result.unit = "of the time";
  result.met = result.result.median <= 1.03;
  return result;
}

// ---- pipelines: the bubble beside its formula, by the program that draws them

std::vector<Result> bubbles(const Options& options) {
  ProcessOptions process;
  process.command = {options.programs + "/pipeline_timeline", "--pass-ms", "60", "--steps",
                     std::to_string(std::max(3, options.rounds))};
  process.output = ProcessOptions::Stream::kPiped;
  process.errors = ProcessOptions::Stream::kAsOutput;
  const ProgramResult program = run_program(process, std::chrono::minutes(10));
  std::vector<Result> results;
  std::istringstream lines(program.output);
  for (std::string line; std::getline(lines, line);) {
    char name[64] = {};
    double measured = 0, low = 0, high = 0, formula = 0;
    unsigned ranks = 0, chunks = 0, micro_batches = 0;
    unsigned long steps = 0;
    if (std::sscanf(line.c_str(),
                    "%63[^:]: %u ranks, %u chunks, %u micro-batches: bubble %lf %% (%lf to %lf in "
                    "%lu steps), formula %lf %%",
                    name, &ranks, &chunks, &micro_batches, &measured, &low, &high, &steps,
                    &formula) != 9) {
      continue;
    }
    Result result;
    result.name = "pipeline_bubble/" + std::string(name);
    char about[160];
    std::snprintf(about, sizeof(about),
                  "idle share of a step over the formula's, %.1f %%: %u ranks, %u micro-batches, "
                  "%u chunks a rank",
                  formula, ranks, micro_batches, chunks);
    result.about = about;
    result.result = {(measured - formula) / 100, (low - formula) / 100, (high - formula) / 100};
    result.unit = "of the step";
    result.target = "at most 0.03";
    result.met = result.result.median <= 0.03;
    results.push_back(result);
  }
  if (results.empty()) throw std::runtime_error("pipeline_timeline: " + program.output);
  return results;
}

// ---- several makes in one mesh

// Published float32, memory, link and host rates of a chip, as in emulator/profiles.
struct Make {
  const char* name;
  int chips;
  double teraflops, memory_gb, link_gb, host_gb;
};

// The plan, by hand: a pipeline over the makes, two chips a stage with three makes and four with
// two, whose layers are as the times that a layer takes there, so that activations alone cross
// between makes; each stage adds its gradients over its own links. |equal|: the plan of somebody
// who does not know. A layer takes longer than the rates of products promise where the weights'
// bytes bound it, so the times are those of the passes, not of the profiles. Of a step, the sum of
// gradients and the optimizer are the part that 48 micro-batches make small, 0.2 s of 5.
Result mixed_makes(const Options& options, const std::vector<Make>& makes, const char* mesh,
                   const std::vector<int64_t>& planned_layers,
                   const std::vector<int64_t>& equal_layers) {
  const Folder folder;
  constexpr double kScale = 0.5;  // of the profiles, which divide by 200
  const auto of_make = [&](const Make& make, const std::string& suffix) {
    return chips(folder, make.name + suffix, make.chips, make.teraflops * kScale,
                 make.memory_gb * kScale, make.link_gb * kScale, make.host_gb * kScale);
  };
  const auto of_all = [&](const std::string& suffix) {
    std::vector<Device> devices;
    for (const Make& make : makes) {
      for (const Device& device : of_make(make, suffix)) devices.push_back(device);
    }
    return devices;
  };
  int64_t layers = 0;
  for (const int64_t of_stage : planned_layers) layers += of_stage;
  parallel::Settings settings = llama(layers, 256, 128, 192);
  settings.micro_batches = 48;
  parallel::Settings planned = settings, equal = settings;
  planned.stage_layers = planned_layers;
  equal.stage_layers = equal_layers;
  ParallelJob mixed(of_all("-planned"), mesh, planned, "zero-bubble");
  ParallelJob unweighted(of_all("-equal"), mesh, equal, "zero-bubble");
  std::vector<std::unique_ptr<ParallelJob>> alone;
  for (const Make& make : makes) {
    alone.push_back(std::make_unique<ParallelJob>(of_make(make, "-alone"),
                                                  "dp=" + std::to_string(make.chips), settings));
  }
  std::vector<ParallelJob*> jobs = {&mixed, &unweighted};
  for (const auto& job : alone) jobs.push_back(job.get());
  const auto seconds = take_turns(jobs, std::min(options.rounds, 3));
  // Steps a second of job |job| in |round|, to the sum of those of each make alone.
  const auto share = [&](size_t job, size_t round) {
    double sum = 0;
    for (size_t i = 2; i < jobs.size(); ++i) sum += 1 / seconds[i][round];
    return 1 / seconds[job][round] / sum;
  };
  std::vector<double> ratios, unplanned;
  for (size_t round = 0; round < seconds[0].size(); ++round) {
    ratios.push_back(share(0, round));
    unplanned.push_back(share(1, round));
  }
  const std::vector<double> middle = medians(seconds);
  Result result;
  result.name = "mixed_makes/" + std::to_string(makes.size());
  char about[240];
  std::snprintf(about, sizeof(about),
                "steps a second of a pipeline of 8 chips of %zu makes, with layers by speed, to "
                "the sum of each make's alone, same model and batch; with equal stages %.2f",
                makes.size(), median(unplanned));
  result.about = about;
  result.seconds = {{"layers by speed", middle[0]}, {"equal stages", middle[1]}};
  for (size_t i = 0; i < makes.size(); ++i) {
    result.seconds.push_back({std::string(makes[i].name) + " alone", middle[i + 2]});
  }
  result.result = estimate_median(ratios);
  result.unit = "of the sum";
  result.target = "at least 0.97";
  result.met = result.result.median >= 0.97;
  return result;
}

Result mixed_makes(const Options& options, int makes) {
  constexpr Make kA800{"A800-like", 4, 0.0975, 10.2, 1, 0.16};
  constexpr Make kAscend{"910B-like", 4, 0.47, 8, 0.98, 0.16};
  constexpr Make kMi250x{"MI250X-like", 2, 0.12, 8.19, 0.25, 0.16};
  // Products as 1 to 4.8, layers as 1 to 2.3.
  if (makes == 2) return mixed_makes(options, {kA800, kAscend}, "pp=2,dp=4", {7, 16}, {12, 11});
  Make ascend = kAscend;
  ascend.chips = 2;
  // Stages of two chips: A800-like twice, MI250X-like, 910B-like; layers as 1, 1, 1.2 and 2.8.
  return mixed_makes(options, {kA800, kMi250x, ascend}, "pp=4,dp=2", {4, 4, 5, 11}, {6, 6, 6, 6});
}

// ---- reports

std::string markdown_of(const Machine& machine, const std::vector<Result>& results, int rounds) {
  std::ostringstream out;
  char line[512];
  std::snprintf(line, sizeof(line),
                "%s, %u cores, load %.2f before and %.2f after. Keel %s, %s. %s; medians of %d "
                "rounds, with their 95 %% interval, of bubbles the range.\n\n",
                machine.cpu.c_str(), machine.cores, machine.load_before, machine.load_after,
                machine.keel.c_str(), machine.compiler.c_str(), machine.date.c_str(), rounds);
  out << line
      << "| figure | result | target | | seconds of a step | |\n|---|---|---|---|---|---|\n";
  for (const Result& result : results) {
    if (!result.skipped.empty()) {
      out << "| " << result.name << " | skipped: " << result.skipped << " | " << result.target
          << " | | | |\n";
      continue;
    }
    std::snprintf(line, sizeof(line), "| %s | %.3f (%.3f to %.3f) %s | %s | %s | ",
                  result.name.c_str(), result.result.median, result.result.low, result.result.high,
                  result.unit.c_str(), result.target.c_str(), result.met ? "met" : "missed");
    out << line;
    for (size_t i = 0; i < result.seconds.size(); ++i) {
      std::snprintf(line, sizeof(line), "%s%s %.4f", i == 0 ? "" : ", ",
                    result.seconds[i].first.c_str(), result.seconds[i].second);
      out << line;
    }
    out << " | " << result.about << " |\n";
  }
  return out.str();
}

std::string json_of(const Machine& machine, const std::vector<Result>& results, int rounds) {
  ordered_json figures = ordered_json::array();
  for (const Result& result : results) {
    ordered_json seconds = ordered_json::object();
    for (const auto& [name, median] : result.seconds) seconds[name] = median;
    ordered_json figure = {{"name", result.name}, {"about", result.about}};
    if (result.skipped.empty()) {
      figure["seconds"] = seconds;
      figure["result"] = {{"median", result.result.median},
                          {"low", result.result.low},
                          {"high", result.result.high},
                          {"unit", result.unit}};
      figure["met"] = result.met;
    } else {
      figure["skipped"] = result.skipped;
    }
    figure["target"] = result.target;
    figures.push_back(figure);
  }
  ordered_json of_machine;
  std::string error;  // none: to_json() writes what is read here
  (void)keel::parse_json(to_json(machine), &of_machine, &error);
  return ordered_json{
             {"format", 1}, {"machine", of_machine}, {"rounds", rounds}, {"figures", figures}}
             .dump(2) +
         "\n";
}

void write(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

int run(const Options& options) {
  setenv("KEEL_CPU_DEVICES", "2", /*overwrite=*/0);
  setenv("KEEL_CPU_CORES", "1", 0);
  keel_init_options init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.backends = "cpu,sim";
  const Runtime runtime(init);
  Machine machine = examine_machine();
  std::vector<Result> results;
  const auto take = [&](const std::string& name, const auto& figures) {
    const bool is_wanted =
        options.filters.empty() ||
        std::any_of(options.filters.begin(), options.filters.end(), [&](const std::string& filter) {
          return name.find(filter) != std::string::npos;
        });
    if (!is_wanted) return;
    std::vector<Result> taken;
    try {
      taken = figures();
    } catch (const std::exception& error) {
      Result failed;
      failed.name = name;
      failed.skipped = error.what();
      taken = {failed};
    }
    for (const Result& result : taken) {
      std::printf("%-30s %.3f %s, %s: %s%s\n", result.name.c_str(), result.result.median,
                  result.unit.c_str(), result.target.c_str(), result.met ? "met" : "missed",
                  result.skipped.empty() ? "" : (" (" + result.skipped + ")").c_str());
      std::fflush(stdout);
      results.push_back(result);
    }
  };
  using Results = std::vector<Result>;
  take("tensor_overlap/tp2", [&] { return Results{tensor_overlap(options, 2)}; });
  take("tensor_overlap/tp4", [&] { return Results{tensor_overlap(options, 4)}; });
  take("pipeline_bubble", [&] { return bubbles(options); });
  take("mixed_makes/2", [&] { return Results{mixed_makes(options, 2)}; });
  take("mixed_makes/3", [&] { return Results{mixed_makes(options, 3)}; });
  take("checkpoint/paced", [&] { return Results{checkpoint(options, true)}; });
  take("checkpoint/cpu", [&] { return Results{checkpoint(options, false)}; });
  machine.load_after = load_average();
  write(options.json, json_of(machine, results, options.rounds));
  write(options.markdown, markdown_of(machine, results, options.rounds));
  return 0;
}

}  // namespace
}  // namespace keel::bench

int main(int argc, char** argv) {
  keel::bench::Options options;
  CLI::App app("Figures of hybrid-parallel training, on paced emulated chips and CPU devices");
  app.add_option("--filter", options.filters, "Figures whose name contains this; default: all");
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--json", options.json)->type_name("FILE");
  app.add_option("--markdown", options.markdown)->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  options.programs = std::filesystem::path(argv[0]).parent_path().string();
  if (options.programs.empty()) options.programs = ".";
  try {
    return keel::bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keel_bench_parallel: %s\n", error.what());
    return 1;
  }
}
