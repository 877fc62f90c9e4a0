// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_peers_report.h"

#include <fmt/format.h>

#include "bench/collectives_comparison.h"
#include "tools/perf/perf_report.h"

namespace keel::cli {
namespace {

constexpr size_t kWidth = 9;

std::optional<bench::Estimate> estimate(const bench::Rounds& rounds) {
  if (rounds.empty()) return std::nullopt;
  std::vector<double> values;
  for (const auto& [round, microseconds] : rounds) values.push_back(microseconds);
  return bench::estimate_median(values);
}

struct Best {
  PeerTime time;
  const bench::Rounds* rounds = nullptr;
};

Best best_of(const bench::Samples& samples, std::span<const bench::LaunchedContender> contenders,
             const std::string& library, const bench::Cell& cell) {
  // Waits for every operation, like MPI's calls; Keel could enqueue several.
  const std::string form = "blocking";
  Best best;
  best.time.library = library;
  for (const bench::LaunchedContender& contender : contenders) {
    if (contender.library != library) continue;
    const bench::Rounds& rounds = samples.of(contender.name, form, cell);
    const std::optional<bench::Estimate> time = estimate(rounds);
    if (!time || (best.rounds != nullptr && best.time.microseconds->median <= time->median)) {
      continue;
    }
    best.time.microseconds = time;
    best.time.way = contender.name + ": " + samples.usual_way(contender.name, form, cell);
    best.rounds = &rounds;
  }
  return best;
}

std::string column(const std::optional<bench::Estimate>& estimate) {
  return fmt::format("  {:>{}}", estimate ? perf_number(estimate->median, kWidth) : "N/A", kWidth);
}

Json estimate_json(const std::optional<bench::Estimate>& estimate) {
  if (!estimate) return nullptr;
  return {{"median", estimate->median}, {"low", estimate->low}, {"high", estimate->high}};
}

Json time_json(const PeerTime& time) {
  Json json = {{"library", time.library}, {"time", estimate_json(time.microseconds)}};
  if (time.microseconds) json["way"] = time.way;
  return json;
}

}  // namespace

PeersRow compare_peers(const bench::Samples& samples,
                       std::span<const bench::LaunchedContender> contenders,
                       std::span<const std::string> libraries, const bench::Cell& cell) {
  PeersRow row;
  row.cell = cell;
  const Best keel = best_of(samples, contenders, "keel", cell);
  row.keel = keel.time;
  const bench::Rounds* fastest = nullptr;
  double least = 0;
  for (const std::string& library : libraries) {
    const Best peer = best_of(samples, contenders, library, cell);
    row.peers.push_back(peer.time);
    if (peer.rounds == nullptr) continue;
    if (fastest != nullptr && least <= peer.time.microseconds->median) continue;
    fastest = peer.rounds;
    least = peer.time.microseconds->median;
  }
  if (fastest != nullptr && keel.rounds != nullptr) {
    row.ratio = bench::ratio_of(*fastest, *keel.rounds);
  }
  return row;
}

std::string peers_head(std::span<const std::string> libraries) {
  std::string names = fmt::format("# {:>10}  {:>{}}", "size", "keel", kWidth);
  std::string units = fmt::format("# {:>10}  {:>{}}", "(B)", "(us)", kWidth);
  for (const std::string& library : libraries) {
    names += fmt::format("  {:>{}}", library, kWidth);
    units += fmt::format("  {:>{}}", "(us)", kWidth);
  }
  return names + fmt::format("  {:>8}\n", "ratio") + units + "\n";
}

std::string peers_row_text(const PeersRow& row) {
  std::string text = fmt::format("{:>12}", row.cell.bytes) + column(row.keel.microseconds);
  for (const PeerTime& peer : row.peers) text += column(peer.microseconds);
  return text +
         fmt::format("  {:>8}\n", row.ratio ? fmt::format("{:.2f}", row.ratio->median) : "N/A");
}

Json peers_row_json(const PeersRow& row) {
  Json peers = Json::array();
  for (const PeerTime& peer : row.peers) peers.push_back(time_json(peer));
  return {{"operation", bench::peers::name_of(row.cell.operation)},
          {"size", row.cell.bytes},
          {"ranks", row.cell.ranks},
          {"keel", time_json(row.keel)},
          {"peers", peers},
          {"ratio", estimate_json(row.ratio)}};
}

}  // namespace keel::cli
