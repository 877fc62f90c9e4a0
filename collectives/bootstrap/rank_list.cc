// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/rank_list.h"

#include <fmt/format.h>

namespace keel {

std::string rank_list(const std::vector<uint32_t>& ranks) {
  constexpr int kMostRuns = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t next = 0;
  for (int run = 0; run < kMostRuns && next < ranks.size(); ++run) {
    const size_t first = next++;
    while (next < ranks.size() && ranks[next] == ranks[next - 1] + 1) ++next;
    if (run > 0) text += ", ";
    text += fmt::to_string(ranks[first]);
    // Two consecutive ranks form no range.
    if (next - first == 2) text += fmt::format(", {}", ranks[next - 1]);
    if (next - first > 2) text += fmt::format("-{}", ranks[next - 1]);
  }
  if (next < ranks.size()) text += fmt::format(" and {} more", ranks.size() - next);
  return text;
}

}  // namespace keel
