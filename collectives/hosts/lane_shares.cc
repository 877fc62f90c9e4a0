// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/lane_shares.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "collectives/shares.h"

namespace keel {

bool read_lane_shares(std::string_view text, LaneShares* out_shares) {
  out_shares->clear();
  if (text == "-") return true;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    uint32_t share = 0;
    const auto [behind, error] = std::from_chars(at, end, share);
    if (error != std::errc() || share == 0 || share > kMostLaneShare) return false;
    if (out_shares->size() == kMostLaneShares) return false;
    out_shares->push_back(share);
    if (behind == end) return true;
    if (*behind != ',') return false;
    at = behind + 1;
  }
}

std::string write_lane_shares(const LaneShares& shares) {
  return shares.empty() ? "-" : fmt::format("{}", fmt::join(shares, ","));
}

std::vector<Piece> divide_by_lanes(uint64_t count, uint64_t element, uint32_t size,
                                   const LaneShares& shares) {
  std::vector<Piece> pieces(size);
  if (shares.size() != size) {
    const uint64_t share = share_elements(count, size, element);
    for (uint32_t i = 0; i < size; ++i) {
      const uint64_t begin = std::min(count, i * share);
      pieces[i] = {begin, std::min(count, begin + share) - begin};
    }
    return pieces;
  }
  const uint64_t line = line_elements(element);
  const uint64_t total = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  uint64_t weight = 0;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < size; ++i) {
    weight += shares[i];
    // count * weight / total, divided because the product may overflow.
    const uint64_t exact = count / total * weight + count % total * weight / total;
    const uint64_t end = i + 1 == size ? count : std::min(count, (exact + line / 2) / line * line);
    pieces[i] = {begin, end - begin};
    begin = end;
  }
  return pieces;
}

}  // namespace keel
