// SPDX-License-Identifier: Apache-2.0
// keel_bench_collectives: compares Keel's collectives with those of Open MPI, MPICH and Gloo, and
// with a bound, on one host. Exit codes: 0, 1 for a failure or a wrong result of Keel, 2 for a
// mistake in the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/collectives_chart.h"
#include "bench/collectives_comparison.h"
#include "bench/collectives_contenders.h"
#include "bench/collectives_report.h"
#include "bench/collectives_samples.h"
#include "bench/launch.h"
#include "bench/machine.h"
#include "tensorfile/replacement.h"

namespace {

using namespace keel::bench;
using Clock = std::chrono::steady_clock;

constexpr int kFailure = 1;
constexpr int kUsage = 2;
// Limit of one launch: the slowest, Gloo with 8 ranks and 64 MiB, takes about 40 s on two busy
// cores.
constexpr std::chrono::seconds kDeadline(240);

struct Plan {
  std::vector<peers::Operation> operations;
  std::vector<uint32_t> ranks = {2, 4, 8};
  std::vector<uint64_t> bytes = {8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  uint32_t relaunches = 10;
  double seconds = 0.1;
};

double minutes_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count() / 60;
}

class Campaign {
 public:
  Campaign(const Plan& plan, std::vector<LaunchedContender> contenders)
      : plan_(plan), contenders_(std::move(contenders)) {}

  // Runs all launches of one operation and number of ranks in a row, every contender once per
  // round. Each round starts with the next contender, so that a slow phase of the machine affects
  // all of them.
  void run() {
    const size_t launches =
        plan_.operations.size() * plan_.ranks.size() * plan_.relaunches * contenders_.size();
    const Clock::time_point start = Clock::now();
    size_t done = 0;
    for (const uint32_t ranks : plan_.ranks) {
      for (const peers::Operation operation : plan_.operations) {
        for (uint32_t round = 0; round < plan_.relaunches; ++round) {
          for (size_t turn = 0; turn < contenders_.size(); ++turn) {
            launch_once(contenders_[(round + turn) % contenders_.size()], operation, ranks, round);
            ++done;
          }
        }
        const double minutes = minutes_since(start);
        fmt::print("{} of {} ranks: {} of {} launches, {:.1f} min, at this pace {:.0f} in all\n",
                   peers::name_of(operation), ranks, done, launches, minutes,
                   minutes * static_cast<double>(launches) / static_cast<double>(done));
        std::fflush(stdout);
      }
    }
  }

  const Samples& samples() const { return samples_; }
  const std::vector<std::string>& failed() const { return failed_; }

 private:
  void launch_once(const LaunchedContender& contender, peers::Operation operation, uint32_t ranks,
                   uint32_t round) {
    std::vector<std::string> command = contender.command(ranks);
    command.insert(command.end(), {"--ops", peers::name_of(operation), "--bytes",
                                   fmt::format("{}", fmt::join(plan_.bytes, ",")), "--seconds",
                                   fmt::format("{}", plan_.seconds), "--deadline",
                                   fmt::format("{}", kDeadline.count() - 5)});
    const Launch result = launch(command, kDeadline);
    std::istringstream lines(result.output);
    size_t measured = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::optional<peers::Measurement> measurement = peers::parse_line(line);
      if (!measurement) continue;
      samples_.add(contender.name, round, *measurement);
      ++measured;
    }
    if (result.failure.empty() && measured >= plan_.bytes.size()) return;
    failed_.push_back(fmt::format("{}, {} of {} ranks, round {}: {}", contender.name,
                                  peers::name_of(operation), ranks, round,
                                  result.failure.empty() ? "tells too little" : result.failure));
    fmt::print(stderr, "{}\n{}\n{}", failed_.back(), fmt::join(command, " "), result.errors);
  }

  const Plan& plan_;
  const std::vector<LaunchedContender> contenders_;
  Samples samples_;
  std::vector<std::string> failed_;
};

void write_file(const std::string& path, const std::string& text) {
  if (!path.empty()) keel::tensorfile::put_file(path, text);
}

// Returns the requested contenders that can run here; |absent| gets the reasons of the others.
std::vector<LaunchedContender> choose(std::vector<LaunchedContender> found,
                                      const std::vector<std::string>& only,
                                      std::vector<std::string>& absent) {
  std::vector<LaunchedContender> chosen;
  for (LaunchedContender& contender : found) {
    const bool wanted =
        only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& name) {
          return contender.name.find(name) != std::string::npos;
        });
    if (!wanted) continue;
    if (contender.missing.empty()) {
      chosen.push_back(std::move(contender));
    } else {
      absent.push_back(fmt::format("{}: {}", contender.name, contender.missing));
      fmt::print("{} left out: {}\n", contender.name, contender.missing);
    }
  }
  return chosen;
}

void print_means(const CollectivesReport& report) {
  const auto mean = [](const auto& part, auto ratio, bool large) {
    const std::optional<double> value = mean_ratio(part.comparisons, ratio, large);
    return value ? fmt::format("{:.2f}", *value) : std::string("-");
  };
  for (const auto& part : report.settings) {
    fmt::print(
        "{}: best peer / Keel {} below 64 KiB, {} from there; direct / Keel {}, {}; "
        "best peer / direct {}, {}\n",
        name_of(part.setting), mean(part, &Comparison::peer_ratio, false),
        mean(part, &Comparison::peer_ratio, true), mean(part, &Comparison::direct_ratio, false),
        mean(part, &Comparison::direct_ratio, true),
        mean(part, &Comparison::peer_over_bound, false),
        mean(part, &Comparison::peer_over_bound, true));
  }
}

int run(int argc, char** argv) {
  CLI::App app("Takes Keel's collectives side by side with their peers", "keel_bench_collectives");
  Plan plan;
  bool quick = false;
  std::vector<std::string> operations;
  std::vector<std::string> only;
  std::string json_path;
  std::string markdown_path;
  std::string svg_path;
  std::string folder =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "peers").string();
  CLI::Option* relaunches =
      app.add_option("--relaunches", plan.relaunches, "Launches of each program")
          ->check(CLI::Range(1u, 1000u))
          ->capture_default_str();
  CLI::Option* bytes =
      app.add_option("--bytes", plan.bytes, "Sizes")->delimiter(',')->check(CLI::PositiveNumber);
  CLI::Option* seconds = app.add_option("--seconds", plan.seconds, "Of each timed loop")
                             ->check(CLI::PositiveNumber)
                             ->capture_default_str();
  app.add_flag("--quick", quick,
               "3 launches, 8 B, 64 KiB, 1 MiB and 16 MiB, 0.05 s a loop, where nothing else "
               "is asked for: some 15 minutes on two cores, and 3 hours without");
  app.add_option("--ops", operations, "all_reduce,broadcast,...")->delimiter(',');
  app.add_option("--ranks", plan.ranks, "Numbers of ranks")
      ->delimiter(',')
      ->check(CLI::IsMember({2u, 4u, 8u}));
  app.add_option("--only", only, "Only programs whose name contains this; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--json", json_path, "Where to write the figures as JSON");
  app.add_option("--markdown", markdown_path, "Where to write them as a table");
  app.add_option("--svg", svg_path, "Where to write them as a picture");
  app.add_option("--peers", folder, "Folder of the programs")->capture_default_str();
  try {
    app.parse(argc, argv);
    for (const std::string& name : operations) {
      const std::optional<peers::Operation> operation = peers::find_operation(name);
      if (!operation) throw CLI::ValidationError("--ops", "no operation '" + name + "'");
      plan.operations.push_back(*operation);
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // 0: --help
  }
  if (operations.empty()) {
    plan.operations.assign(std::begin(peers::kOperations), std::end(peers::kOperations));
  }
  if (quick && bytes->empty()) plan.bytes = {8, 64 << 10, 1 << 20, 16 << 20};
  if (quick && relaunches->empty()) plan.relaunches = 3;
  if (quick && seconds->empty()) plan.seconds = 0.05;

  CollectivesReport report;
  const std::vector<LaunchedContender> contenders =
      choose(find_contenders(folder), only, report.absent);
  if (contenders.empty()) throw std::runtime_error("nothing to measure in " + folder);
  const Clock::time_point start = Clock::now();
  report.machine = examine_machine();
  report.relaunches = plan.relaunches;
  report.cell_seconds = plan.seconds;
  Campaign campaign(plan, contenders);
  campaign.run();
  report.machine.load_after = load_average();
  report.minutes = minutes_since(start);
  report.wrong = campaign.samples().wrong_results();
  report.failed = campaign.failed();
  for (const Setting setting : kSettings) {
    report.settings.push_back({setting, compare(campaign.samples(), contenders, setting)});
  }
  print_means(report);
  write_file(json_path, to_json(report));
  write_file(markdown_path, to_markdown(report));
  write_file(svg_path, to_svg(report));
  for (const std::string& line : report.wrong) fmt::print("wrong: {}\n", line);
  fmt::print("{} launches failed, {} results were wrong\n", report.failed.size(),
             report.wrong.size());
  // A failing peer is a gap in the figures; a failure of Keel is an error.
  const auto is_keel = [](const std::string& line) { return line.starts_with("Keel"); };
  const bool bad = std::any_of(report.wrong.begin(), report.wrong.end(), is_keel) ||
                   std::any_of(report.failed.begin(), report.failed.end(), is_keel);
  return bad ? kFailure : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "keel_bench_collectives: {}\n", error.what());
    return kFailure;
  }
}
