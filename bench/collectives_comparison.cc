// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_comparison.h"

#include <cmath>

namespace keel::bench {

namespace {

const std::string kBlocking = "blocking";
const std::string kStream = "stream";

std::optional<Estimate> time_of(const Rounds& rounds) {
  if (rounds.empty()) return std::nullopt;
  std::vector<double> values;
  for (const auto& [round, microseconds] : rounds) values.push_back(microseconds);
  return estimate_median(values);
}

// Peers that run processes are compared with both process settings of Keel.
bool is_peer_in(const LaunchedContender& contender, Setting setting) {
  const bool threads = contender.setting == Setting::kThreads;
  return contender.side == Side::kPeer && threads == (setting == Setting::kThreads);
}

}  // namespace

std::optional<Estimate> ratio_of(const Rounds& first, const Rounds& second) {
  std::vector<double> ratios;
  for (const auto& [round, microseconds] : first) {
    const auto other = second.find(round);
    if (other != second.end()) ratios.push_back(microseconds / other->second);
  }
  if (ratios.empty()) return std::nullopt;
  return estimate_median(ratios);
}

double geometric_mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::vector<Comparison> compare(const Samples& samples,
                                std::span<const LaunchedContender> contenders, Setting setting) {
  std::vector<Comparison> comparisons;
  for (const Cell& cell : samples.cells()) {
    Comparison comparison;
    comparison.cell = cell;
    const Rounds* peer = nullptr;
    const Rounds* keel = nullptr;
    const Rounds* direct = nullptr;
    const Rounds* stream = nullptr;
    for (const LaunchedContender& contender : contenders) {
      const Rounds& rounds = samples.of(contender.name, kBlocking, cell);
      if (contender.side == Side::kBound) direct = &rounds;
      if (contender.side == Side::kKeel && contender.setting == setting) {
        keel = &rounds;
        stream = &samples.of(contender.name, kStream, cell);
      }
      if (!is_peer_in(contender, setting)) continue;
      const std::optional<Estimate> time = time_of(rounds);
      if (!time || (comparison.peer_time && comparison.peer_time->median <= time->median)) continue;
      peer = &rounds;
      comparison.peer = contender.name;
      comparison.peer_way = samples.usual_way(contender.name, kBlocking, cell);
      comparison.peer_time = time;
    }
    if (direct != nullptr) comparison.direct_time = time_of(*direct);
    if (keel != nullptr) {
      comparison.keel_time = time_of(*keel);
      comparison.stream_time = time_of(*stream);
    }
    if (peer != nullptr && keel != nullptr) {
      comparison.peer_ratio = ratio_of(*peer, *keel);
      comparison.stream_ratio = ratio_of(*peer, *stream);
    }
    if (direct != nullptr && keel != nullptr) comparison.direct_ratio = ratio_of(*direct, *keel);
    if (peer != nullptr && direct != nullptr) comparison.peer_over_bound = ratio_of(*peer, *direct);
    comparisons.push_back(comparison);
  }
  return comparisons;
}

std::optional<Target> mean_target(Setting setting, bool large) {
  switch (setting) {
    case Setting::kProcesses:
      return Target{large ? 3 : 1.3};
    case Setting::kForeign:
      return Target{1.3};
    case Setting::kThreads:
      return Target{3};
  }
  return std::nullopt;
}

// Below kLarge the times contain the machine's noise: the target only excludes cells that are
// certainly slower.
std::optional<Target> peer_target(Setting setting, uint64_t bytes) {
  switch (setting) {
    case Setting::kProcesses:
      return bytes >= kLarge ? Target{1.5} : Target{0.95, /*of_low=*/true};
    case Setting::kForeign:
      return Target{1};
    case Setting::kThreads:
      return std::nullopt;
  }
  return std::nullopt;
}

// The target applies where synchronization is small compared with memory traffic.
std::optional<Target> direct_target(Setting setting, uint64_t bytes) {
  constexpr uint64_t kFirst = 1 << 20;
  if (setting == Setting::kProcesses && bytes >= kFirst) return Target{0.85};
  return std::nullopt;
}

std::optional<bool> is_met(const std::optional<Target>& target,
                           const std::optional<Estimate>& ratio) {
  if (!target || !ratio) return std::nullopt;
  return (target->of_low ? ratio->low : ratio->median) >= target->bound;
}

std::optional<double> mean_ratio(std::span<const Comparison> comparisons,
                                 std::optional<Estimate> Comparison::*ratio, bool large) {
  std::vector<double> medians;
  for (const Comparison& comparison : comparisons) {
    const bool is_large = comparison.cell.bytes >= kLarge;
    if (is_large == large && comparison.*ratio) medians.push_back((comparison.*ratio)->median);
  }
  if (medians.empty()) return std::nullopt;
  return geometric_mean(medians);
}

}  // namespace keel::bench
