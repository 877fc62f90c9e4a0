// SPDX-License-Identifier: Apache-2.0
// Shares of a batch by the ranks' measured speeds.
#include <algorithm>
#include <keel/parallel/engine.hpp>
#include <numeric>

namespace keel::parallel {
inline namespace v0 {

std::vector<int64_t> measured_shares(Mesh& mesh, const std::vector<int64_t>& shares, double seconds,
                                     double gain) {
  const auto ranks = static_cast<size_t>(mesh.size_of("dp"));
  const std::vector<double> all = mesh.gather(seconds);  // first: a rank that throws leaves none
  if (shares.size() != ranks) {
    throw Error(KEEL_INVALID_ARGUMENT, std::to_string(shares.size()) + " shares for " +
                                           std::to_string(ranks) + " ranks of axis dp");
  }
  std::vector<double> longest(ranks, 0);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    double& entry =
        longest[static_cast<size_t>(mesh.shape().coordinate(static_cast<int64_t>(rank), "dp"))];
    entry = std::max(entry, all[rank]);
  }
  std::vector<double> speeds;
  for (size_t i = 0; i < ranks; ++i) {
    if (!(longest[i] > 0)) return shares;  // a rank has measured nothing
    speeds.push_back(static_cast<double>(shares[i]) / longest[i]);
  }
  const std::vector<int64_t> better =
      shares_by_speed(std::accumulate(shares.begin(), shares.end(), int64_t{0}), speeds);
  double now = 0, then = 0;
  for (size_t i = 0; i < ranks; ++i) {
    now = std::max(now, longest[i]);
    then = std::max(then, static_cast<double>(better[i]) / speeds[i]);
  }
  return then <= (1 - gain) * now ? better : shares;
}

}  // namespace v0
}  // namespace keel::parallel
