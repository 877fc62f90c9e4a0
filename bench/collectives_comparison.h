// SPDX-License-Identifier: Apache-2.0
// Compares Keel with the best peer and with the bound, cell by cell.
#ifndef KEEL_BENCH_COLLECTIVES_COMPARISON_H_
#define KEEL_BENCH_COLLECTIVES_COMPARISON_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/collectives_contenders.h"
#include "bench/collectives_samples.h"
#include "bench/harness.h"

namespace keel::bench {

// Unmeasured values are absent. Times are in microseconds; ratios are above 1 where Keel is faster.
// The interval of a ratio is computed from the ratios of the single rounds, so a slow minute of the
// machine affects both sides.
struct Comparison {
  Cell cell;
  std::string peer;      // the peer with the smallest median
  std::string peer_way;  // the algorithm used most by |peer|
  std::optional<Estimate> peer_time;
  std::optional<Estimate> direct_time;
  std::optional<Estimate> keel_time;    // waits for every operation, like MPI's calls
  std::optional<Estimate> stream_time;  // enqueues all operations, then waits once
  std::optional<Estimate> peer_ratio;   // peer / Keel
  std::optional<Estimate> direct_ratio;
  std::optional<Estimate> stream_ratio;     // peer / Keel with one wait
  std::optional<Estimate> peer_over_bound;  // peer / direct: the possible gain
};

std::vector<Comparison> compare(const Samples& samples,
                                std::span<const LaunchedContender> contenders, Setting setting);

// Returns the ratio |first| / |second| over the rounds of both; empty if |first| and |second| share
// no round.
std::optional<Estimate> ratio_of(const Rounds& first, const Rounds& second);

// |values| are positive and not empty.
double geometric_mean(std::span<const double> values);

// Below this size latency dominates; from this size on, memory bandwidth.
inline constexpr uint64_t kLarge = 64 << 10;

// Lower bound for a ratio's median, or for the lower end of its interval if |of_low|.
struct Target {
  double bound = 0;
  bool of_low = false;
};
// Targets for peer / Keel: mean over the cells below kLarge, or from kLarge on, and per cell; and
// for direct / Keel per cell. Empty where no target is set.
std::optional<Target> mean_target(Setting setting, bool large);
std::optional<Target> peer_target(Setting setting, uint64_t bytes);
std::optional<Target> direct_target(Setting setting, uint64_t bytes);
// Returns nullopt without a target or without a ratio.
std::optional<bool> is_met(const std::optional<Target>& target,
                           const std::optional<Estimate>& ratio);

// Returns the geometric mean of the medians of |ratio| over the cells from kLarge on (|large|) or
// below; nullopt if no cell has this ratio.
std::optional<double> mean_ratio(std::span<const Comparison> comparisons,
                                 std::optional<Estimate> Comparison::*ratio, bool large);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_COMPARISON_H_
