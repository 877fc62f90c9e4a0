// SPDX-License-Identifier: Apache-2.0
// Tests the evaluation of collectives measurements; needs no peer.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/collectives_chart.h"
#include "bench/collectives_comparison.h"
#include "bench/collectives_report.h"
#include "bench/collectives_samples.h"
#include "bench/launch.h"

namespace keel::bench {
namespace {

using peers::Measurement;
using peers::Operation;

constexpr uint64_t kSizes[] = {8, 64 << 10};
constexpr uint32_t kRanks[] = {2, 4};

std::vector<LaunchedContender> some_contenders() {
  return {{"slow peer", Side::kPeer, Setting::kProcesses, "", {}, {}},
          {"quick peer", Side::kPeer, Setting::kProcesses, "", {}, {}},
          {"Keel", Side::kKeel, Setting::kProcesses, "", {}, {}},
          {"bound", Side::kBound, Setting::kThreads, "", {}, {}},
          {"peer of threads", Side::kPeer, Setting::kThreads, "", {}, {}}};
}

Measurement measured(const Cell& cell, double microseconds, bool right = true,
                     const std::string& form = "blocking") {
  return {cell.operation, cell.ranks, cell.bytes,   cell.bytes, "ring",
          form,           100,        microseconds, right};
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const Operation operation : peers::kOperations) {
    for (const uint32_t ranks : kRanks) {
      for (const uint64_t bytes : kSizes) cells.push_back({operation, ranks, bytes});
    }
  }
  return cells;
}

// The quick peer takes twice as long as Keel for small sizes and eight times as long for large
// ones; the bound takes half as long. The machine gets slower each round.
Samples some_samples() {
  Samples samples;
  for (const Cell& cell : all_cells()) {
    const double factor = cell.bytes < kLarge ? 2 : 8;
    for (uint32_t round = 0; round < 5; ++round) {
      const double machine = round + 1;
      samples.add("slow peer", round, measured(cell, 100 * machine));
      samples.add("quick peer", round, measured(cell, factor * machine));
      samples.add("Keel", round, measured(cell, machine));
      samples.add("Keel", round, measured(cell, machine / 4, true, "stream"));
      samples.add("bound", round, measured(cell, machine / 2));
    }
  }
  return samples;
}

CollectivesReport some_report() {
  CollectivesReport report;
  report.relaunches = 5;
  const Samples samples = some_samples();
  for (const Setting setting : kSettings) {
    report.settings.push_back({setting, compare(samples, some_contenders(), setting)});
  }
  return report;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Comparison, TakesTheBestPeerAndPairsTheRounds) {
  const std::vector<Comparison> all =
      compare(some_samples(), some_contenders(), Setting::kProcesses);
  ASSERT_EQ(all.size(), all_cells().size());
  for (const Comparison& comparison : all) {
    const double factor = comparison.cell.bytes < kLarge ? 2 : 8;
    EXPECT_EQ(comparison.peer, "quick peer");
    EXPECT_EQ(comparison.peer_way, "ring");
    EXPECT_EQ(comparison.keel_time->median, 3);
    // Both sides slow down together, so the interval is a point.
    EXPECT_EQ(comparison.peer_ratio->low, factor);
    EXPECT_EQ(comparison.peer_ratio->high, factor);
    EXPECT_EQ(comparison.stream_ratio->median, factor * 4);
    EXPECT_EQ(comparison.direct_ratio->median, 0.5);
    EXPECT_EQ(comparison.peer_over_bound->median, factor * 2);
  }
}

TEST(Comparison, OfASettingWithoutKeelHasNoRatios) {
  const std::vector<Comparison> all = compare(some_samples(), some_contenders(), Setting::kThreads);
  ASSERT_FALSE(all.empty());
  EXPECT_FALSE(all[0].peer_time);  // processes are no peers of threads
  EXPECT_FALSE(all[0].keel_time);
  EXPECT_FALSE(all[0].peer_ratio);
  EXPECT_EQ(all[0].direct_time->median, 1.5);
}

TEST(Comparison, LeavesOutRoundsThatOneOfTheTwoMissed) {
  EXPECT_EQ(ratio_of({{0, 10}, {1, 30}}, {{1, 10}, {2, 1}})->median, 3);
  EXPECT_FALSE(ratio_of({{0, 10}}, {{1, 10}}));
}

TEST(Comparison, CountsNoWrongResult) {
  Samples samples;
  const Cell cell = {Operation::kBroadcast, 4, 1024};
  samples.add("Keel", 0, measured(cell, 1, /*right=*/false));
  EXPECT_TRUE(samples.of("Keel", "blocking", cell).empty());
  ASSERT_EQ(samples.wrong_results().size(), 1u);
  EXPECT_EQ(samples.wrong_results()[0], "Keel, broadcast of 4 ranks, 1024 bytes, ring");
}

TEST(Comparison, MeansAreGeometricAndApartBySize) {
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{2, 8}), 4);
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{0.25, 1, 4}), 1);
  const std::vector<Comparison> all =
      compare(some_samples(), some_contenders(), Setting::kProcesses);
  EXPECT_NEAR(*mean_ratio(all, &Comparison::peer_ratio, /*large=*/false), 2, 1e-9);
  EXPECT_NEAR(*mean_ratio(all, &Comparison::peer_ratio, /*large=*/true), 8, 1e-9);
  EXPECT_FALSE(mean_ratio({}, &Comparison::peer_ratio, true));
}

TEST(Report, JsonHasEveryCellAndMean) {
  const nlohmann::json json = nlohmann::json::parse(to_json(some_report()));
  EXPECT_EQ(json["format"], 2);
  ASSERT_EQ(json["settings"].size(), 3u);
  const nlohmann::json& processes = json["settings"][0];
  EXPECT_EQ(processes["setting"], "processes, Keel's buffers");
  EXPECT_EQ(processes["cells"].size(), all_cells().size());
  EXPECT_NEAR(processes["geometric_means"]["best peer / Keel"]["from_64_kib"], 8, 1e-9);
  EXPECT_EQ(processes["cells"][0]["op"], "all_reduce");
  EXPECT_EQ(processes["cells"][0]["peer_over_keel"]["median"], 2);
  EXPECT_TRUE(json["settings"][2]["cells"][0]["keel_us"].is_null());
}

TEST(Report, MarkdownHasARowACell) {
  const std::string text = to_markdown(some_report());
  for (const Operation operation : peers::kOperations) {
    for (const uint32_t ranks : kRanks) {
      for (const uint64_t bytes : kSizes) {
        const std::string row = std::string("\n| ") + peers::name_of(operation) + " | " +
                                std::to_string(ranks) + " | " + size_text(bytes) + " | ";
        EXPECT_EQ(count(text, row), 3u) << row;  // one per setting
      }
    }
  }
  EXPECT_EQ(count(text, "2.00 (2.00–2.00)"), all_cells().size() / 2);
}

TEST(Targets, OfCellsAndOfMeans) {
  EXPECT_EQ(mean_target(Setting::kProcesses, /*large=*/true)->bound, 3);
  EXPECT_EQ(mean_target(Setting::kProcesses, /*large=*/false)->bound, 1.3);
  EXPECT_EQ(mean_target(Setting::kForeign, /*large=*/true)->bound, 1.3);
  EXPECT_EQ(mean_target(Setting::kThreads, /*large=*/false)->bound, 3);
  EXPECT_EQ(peer_target(Setting::kProcesses, kLarge)->bound, 1.5);
  EXPECT_FALSE(peer_target(Setting::kThreads, kLarge));
  EXPECT_EQ(direct_target(Setting::kProcesses, 1 << 20)->bound, 0.85);
  EXPECT_FALSE(direct_target(Setting::kProcesses, (1 << 20) - 1));

  // For small sizes the whole interval must reach the bound.
  const std::optional<Target> small = peer_target(Setting::kProcesses, kLarge - 1);
  EXPECT_EQ(is_met(small, Estimate{1.2, 0.94, 1.3}), false);
  EXPECT_EQ(is_met(small, Estimate{1.0, 0.95, 1.3}), true);
  const std::optional<Target> large = peer_target(Setting::kProcesses, kLarge);
  EXPECT_EQ(is_met(large, Estimate{1.5, 1.1, 1.9}), true);
  EXPECT_EQ(is_met(large, std::nullopt), std::nullopt);
  EXPECT_EQ(is_met(std::nullopt, Estimate{1, 1, 1}), std::nullopt);
}

TEST(Report, TellsWhatMeetsItsTarget) {
  CollectivesReport report = some_report();
  // One large cell misses the target, and one was not measured.
  std::vector<Comparison>& cells = report.settings[0].comparisons;
  ASSERT_GE(cells[1].cell.bytes, kLarge);
  ASSERT_GE(cells[3].cell.bytes, kLarge);
  cells[1].peer_ratio = Estimate{1.25, 1.2, 1.3};
  cells[3].peer_ratio.reset();

  const std::string text = to_markdown(report);
  const size_t large = all_cells().size() / 2;
  EXPECT_NE(text.find("| 1.25 (1.20–1.30) | at least 1.50 | missed | "), std::string::npos);
  EXPECT_EQ(count(text, "| at least 1.50 | not measured |"), 1u);
  EXPECT_EQ(count(text, "| at least 1.50 | met |"), large - 2);
  EXPECT_EQ(count(text, "| surely 0.95 | met |"), all_cells().size() - large);
  EXPECT_EQ(count(text, "| at least 3.00 | met |"), 1u);  // the mean

  const nlohmann::json json = nlohmann::json::parse(to_json(report));
  const nlohmann::json& processes = json["settings"][0];
  EXPECT_EQ(processes["mean_targets"]["from_64_kib"]["bound"], 3);
  EXPECT_EQ(processes["mean_targets"]["from_64_kib"]["met"], true);
  EXPECT_EQ(processes["cells"][0]["peer_over_keel_target"]["of"], "low");
  EXPECT_EQ(processes["cells"][1]["peer_over_keel_target"]["met"], false);
  EXPECT_TRUE(processes["cells"][3]["peer_over_keel_target"]["met"].is_null());
  EXPECT_TRUE(processes["cells"][0]["direct_over_keel_target"].is_null());
}

TEST(Report, SizesAreWrittenInTheirUnits) {
  EXPECT_EQ(size_text(8), "8 B");
  EXPECT_EQ(size_text(1025), "1025 B");
  EXPECT_EQ(size_text(64 << 10), "64 KiB");
  EXPECT_EQ(size_text(64 << 20), "64 MiB");
}

TEST(Chart, HasADotACell) {
  const std::string svg = to_svg(some_report());
  EXPECT_NE(svg.find("time of Keel"), std::string::npos);
  for (const Cell& cell : all_cells()) {
    const std::string title = std::string("<title>") + peers::name_of(cell.operation) + ", " +
                              std::to_string(cell.ranks) + " ranks, " + size_text(cell.bytes);
    EXPECT_EQ(count(svg, title), 1u) << title;
  }
  EXPECT_EQ(count(svg, "<g "), count(svg, "</g>"));
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
}

TEST(Chart, ShowsPeersAgainstTheBoundWithoutKeel) {
  Samples samples;
  for (const Cell& cell : all_cells()) {
    samples.add("quick peer", 0, measured(cell, 6));
    samples.add("bound", 0, measured(cell, 2));
  }
  CollectivesReport report;
  report.settings.push_back(
      {Setting::kProcesses, compare(samples, some_contenders(), Setting::kProcesses)});
  const std::string svg = to_svg(report);
  EXPECT_NE(svg.find("time of the bound"), std::string::npos);
  EXPECT_EQ(count(svg, ": 3.00 (quick peer)</title>"), all_cells().size());
}

TEST(Chart, KeepsWithinItsPanelsWhatOneLaunchSpoils) {
  CollectivesReport report = some_report();
  report.settings[0].comparisons[0].peer_ratio->low = 1e-9;
  const std::string svg = to_svg(report);
  size_t seen = 0;
  for (const std::string name : {"y1=\"", "y2=\""}) {
    for (size_t at = svg.find(name); at != std::string::npos; at = svg.find(name, at + 1)) {
      const double height = std::stod(svg.substr(at + name.size(), 16));
      ++seen;
      EXPECT_GE(height, 0);
      EXPECT_LE(height, 190);  // a panel's height
    }
  }
  EXPECT_GT(seen, 2 * all_cells().size());
}

TEST(Launch, GivesBothOutputsAndTheExitCode) {
  const Launch good = launch({"sh", "-c", "echo out; echo err >&2"}, std::chrono::seconds(60));
  EXPECT_EQ(good.output, "out\n");
  EXPECT_EQ(good.errors, "err\n");
  EXPECT_EQ(good.failure, "");
  EXPECT_EQ(launch({"sh", "-c", "exit 3"}, std::chrono::seconds(60)).failure, "exit code 3");
  EXPECT_EQ(launch({"sh", "-c", "kill -9 $$"}, std::chrono::seconds(60)).failure,
            "ended by signal 9");
  EXPECT_EQ(launch({"/no/such/program"}, std::chrono::seconds(60)).failure,
            "cannot be started: No such file or directory");
}

TEST(Launch, KillsWhatOutlivesItsDeadlineWithItsChildren) {
  // The grandchild holds the pipe, so reading ends only after its death.
  const Launch late = launch({"sh", "-c", "sleep 300 & echo begun; wait"}, std::chrono::seconds(2));
  EXPECT_EQ(late.output, "begun\n");
  EXPECT_EQ(late.failure, "killed after 2 s");
}

}  // namespace
}  // namespace keel::bench
