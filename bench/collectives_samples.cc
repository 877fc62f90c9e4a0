// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace keel::bench {

void Samples::add(const std::string& contender, uint32_t round,
                  const peers::Measurement& measurement) {
  const Cell cell = {measurement.operation, measurement.ranks, measurement.bytes};
  if (!measurement.right) {
    // A wrong result has no valid time.
    wrong_.push_back(fmt::format("{}, {} of {} ranks, {} bytes, {}", contender,
                                 peers::name_of(cell.operation), cell.ranks, cell.bytes,
                                 measurement.way));
    return;
  }
  Entry& entry = entries_[{contender, measurement.form, cell}];
  entry.rounds[round] = measurement.microseconds;
  ++entry.ways[measurement.way];
}

const Rounds& Samples::of(const std::string& contender, const std::string& form,
                          const Cell& cell) const {
  static const Rounds kNone;
  const auto found = entries_.find({contender, form, cell});
  return found == entries_.end() ? kNone : found->second.rounds;
}

std::string Samples::usual_way(const std::string& contender, const std::string& form,
                               const Cell& cell) const {
  const auto found = entries_.find({contender, form, cell});
  if (found == entries_.end()) return "";
  const auto& ways = found->second.ways;
  return std::max_element(ways.begin(), ways.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<Cell> Samples::cells() const {
  std::set<Cell> cells;
  for (const auto& [key, entry] : entries_) cells.insert(key.cell);
  return {cells.begin(), cells.end()};
}

}  // namespace keel::bench
