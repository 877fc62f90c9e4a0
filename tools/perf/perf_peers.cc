// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/collectives_contenders.h"
#include "bench/collectives_samples.h"
#include "bench/launch.h"
#include "tools/command.h"
#include "tools/output_file.h"
#include "tools/perf/perf_peers_report.h"

namespace keel::cli {
namespace {

namespace fs = std::filesystem;
using bench::LaunchedContender;
using bench::Setting;

// Limit of one launch, which runs all sizes of one operation. The slowest, Gloo with 8 ranks and 64
// MiB, takes about 40 s on two busy cores.
constexpr std::chrono::seconds kDeadline(240);
// Duration of the timed loop of one size, if no number of operations is given.
constexpr double kLoopSeconds = 0.05;

std::vector<bench::peers::Operation> operations_of(const PerfOptions& options) {
  std::vector<bench::peers::Operation> operations;
  for (const bench::peers::Operation each : bench::peers::kOperations) {
    if (options.operation == "all" || options.operation == bench::peers::name_of(each)) {
      operations.push_back(each);
    }
  }
  return operations;
}

bool are_threads(const PerfOptions& options) {
  return options.processes == 1;
}

// Returns how to launch |library|: ranks of an MPI are always processes.
Setting setting_of(const PerfOptions& options, const std::string& library) {
  const bool is_mpi = library == "openmpi" || library == "mpich";
  if (are_threads(options) && !is_mpi) return Setting::kThreads;
  return options.foreign && library == "keel" ? Setting::kForeign : Setting::kProcesses;
}

fs::path folder_of_programs(const PerfOptions& options) {
  if (!options.peer_programs.empty()) return fs::absolute(options.peer_programs);
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path installed = (here / KEEL_PEER_PROGRAMS).lexically_normal();
  for (const fs::path& folder : {here / "peers", installed}) {
    if (access((folder / "keel_peer").c_str(), X_OK) == 0) return folder;
  }
  throw std::runtime_error(
      fmt::format("--peers: keel_peer is neither in {} nor in {}; `cmake --install BUILD "
                  "--component peers` installs it, --peer-programs names another folder",
                  (here / "peers").string(), installed.string()));
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" -\t\r") != std::string::npos) last = line;
  }
  return last;
}

class PeersRun {
 public:
  explicit PeersRun(const PerfOptions& options)
      : options_(options), output_("--output_file", options.output_file), sizes_(options.sizes()) {
    for (LaunchedContender& each : bench::find_contenders(folder_of_programs(options))) {
      const auto& names = options.peers;
      const bool is_wanted = each.library == "keel" ||
                             std::find(names.begin(), names.end(), each.library) != names.end();
      if (!is_wanted || each.setting != setting_of(options, each.library)) continue;
      if (each.missing.empty()) {
        contenders_.push_back(std::move(each));
        continue;
      }
      if (each.library == "keel") throw std::runtime_error("--peers: " + each.missing);
      left_out_[each.library] = each.missing;
    }
  }

  bool run() {
    print_start();
    for (const bench::peers::Operation operation : operations_of(options_)) {
      for (uint32_t round = 0; round < options_.rounds; ++round) {
        // Each round starts with the next contender, so that none always runs after the same one.
        for (size_t turn = 0; turn < contenders_.size(); ++turn) {
          launch_once(contenders_[(round + turn) % contenders_.size()], operation, round);
        }
      }
      print_table(operation);
    }
    for (const std::string& line : samples_.wrong_results()) {
      failures_.push_back("wrong result: " + line);
      keel_failed_ |= line.starts_with("Keel");
    }
    for (const std::string& line : failures_) fmt::print(stderr, "{}\n", line);
    if (!options_.output_file.empty()) write_json();
    return !keel_failed_;
  }

 private:
  void print_start() const {
    const char* const kind = are_threads(options_) ? "threads" : "processes";
    std::string text = fmt::format(
        "# keel perf, Keel {}.{}.{}, beside {}\n"
        "# {} ranks, {} ({}); float, sum, every result verified; {} rounds of a launch each, "
        "medians; each operation is waited for, as MPI's calls do\n",
        keel_version() >> 16, keel_version() >> 8 & 255, keel_version() & 255,
        fmt::join(options_.peers, ", "), options_.world(), kind,
        options_.foreign ? "Keel's buffers are of malloc" : "Keel's buffers are of keel_alloc",
        options_.rounds);
    if (are_threads(options_)) text += "# ranks of an MPI are processes all the same\n";
    text += "# ratio: the fastest peer's time / Keel's; a broadcast is one with a barrier behind\n";
    for (const auto& [library, why] : left_out_) {
      text += fmt::format("# {} left out: {}\n", library, why);
    }
    show(text);
  }

  void launch_once(const LaunchedContender& contender, bench::peers::Operation operation,
                   uint32_t round) {
    const auto deadline =
        options_.timeout_ns > 0
            ? std::chrono::ceil<std::chrono::seconds>(std::chrono::nanoseconds(options_.timeout_ns))
            : kDeadline;
    std::vector<std::string> command = contender.command(options_.world());
    command.insert(command.end(), {"--ops", bench::peers::name_of(operation), "--bytes",
                                   fmt::format("{}", fmt::join(sizes_, ",")), "--seconds",
                                   fmt::format("{}", kLoopSeconds), "--deadline",
                                   fmt::format("{}", std::max<int64_t>(deadline.count() - 1, 1))});
    if (options_.iterations_given) {
      command.insert(command.end(), {"--times", fmt::format("{}", options_.iterations)});
    }
    if (options_.warmup_iterations != 0) {
      command.insert(command.end(), {"--warmup", fmt::format("{}", options_.warmup_iterations)});
    }
    const bench::Launch result = bench::launch(command, deadline);
    std::istringstream lines(result.output);
    size_t measured = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto measurement = bench::peers::parse_line(line);
      if (!measurement) continue;
      samples_.add(contender.name, round, *measurement);
      ++measured;
    }
    if (result.failure.empty() && measured >= sizes_.size()) return;
    failures_.push_back(fmt::format(
        "{}, {}, round {}: {}; {}", contender.name, bench::peers::name_of(operation), round + 1,
        result.failure.empty() ? "measured too little" : result.failure, last_line(result.errors)));
    keel_failed_ |= contender.library == "keel";
  }

  void print_table(bench::peers::Operation operation) {
    std::string text =
        fmt::format("#\n# {}\n#\n{}", bench::peers::name_of(operation), peers_head(options_.peers));
    for (const uint64_t bytes : sizes_) {
      const PeersRow row = compare_peers(samples_, contenders_, options_.peers,
                                         {operation, options_.world(), bytes});
      text += peers_row_text(row);
      results_.push_back(peers_row_json(row));
    }
    show(text);
  }

  // Shows each table as soon as it is complete.
  static void show(const std::string& text) {
    print(text);
    std::fflush(stdout);
  }

  void write_json() const {
    Json json;
    json["version"] = 1;
    json["keel_version"] = keel_version();
    json["config"] = {{"ranks", options_.world()},
                      {"kind", are_threads(options_) ? "threads" : "processes"},
                      {"foreign", options_.foreign},
                      {"rounds", options_.rounds},
                      {"type", "float"},
                      {"redop", "sum"}};
    json["left_out"] = left_out_;
    json["failures"] = failures_;
    json["results"] = results_;
    output_.write(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + '\n');
  }

  const PerfOptions& options_;
  const OutputFile output_;
  const std::vector<uint64_t> sizes_;
  std::vector<LaunchedContender> contenders_;
  std::map<std::string, std::string> left_out_;  // reason by library
  bench::Samples samples_;
  std::vector<std::string> failures_;
  bool keel_failed_ = false;
  Json results_ = Json::array();
};

}  // namespace

std::vector<std::string> perf_peer_names() {
  return {std::begin(bench::kPeerLibraries), std::end(bench::kPeerLibraries)};
}

void check_perf_peers(const PerfOptions& options) {
  const auto refuse_if = [](bool refused, const std::string& text) {
    if (refused) throw UsageError(text);
  };
  std::vector<std::string> known;
  for (const auto each : bench::peers::kOperations) known.emplace_back(bench::peers::name_of(each));
  refuse_if(operations_of(options).empty(),
            fmt::format("--peers: {} is not compared; {} are", options.operation, join(known)));
  refuse_if(options.dtypes != std::vector<keel_dtype>{KEEL_FLOAT32},
            "--datatype: float alone is compared with --peers");
  refuse_if(options.reductions != std::vector<keel_reduction>{KEEL_SUM},
            "--op: sum alone is compared with --peers");
  refuse_if(options.root != 0, "--root: 0 alone is compared with --peers");
  refuse_if(!options.devices.empty() || !options.plugins.empty(),
            "--devices, --plugin: the memory that is compared with --peers is cpu:0's");
  refuse_if(options.explain, "--explain: not with --peers, whose ranks are other programs'");
  refuse_if(!options.svg.empty(), "--svg: not with --peers, whose ranks are other programs'");
  refuse_if(options.min_bytes < sizeof(float), "--minbytes: at least 4 with --peers");
  refuse_if(options.processes > 1 && options.ranks_per_process() > 1,
            "--procs: with --peers ranks are processes (--procs) or threads (-g), not both");
  refuse_if(options.world() < 2, "--peers: at least two ranks, by --procs N or -g N");
  refuse_if(options.foreign && are_threads(options), "--foreign: with --peers of --procs alone");
}

bool run_perf_peers(const PerfOptions& options) {
  return PeersRun(options).run();
}

}  // namespace keel::cli
