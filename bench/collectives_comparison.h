// SPDX-License-Identifier: Apache-2.0
// Keel beside the best peer and the bound, cell by cell.
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

// What was not measured is absent. Times in microseconds; ratios are above 1 where Keel is
// faster. An interval of a ratio is that of the rounds' ratios: a slow minute of the machine
// is in both.
struct Comparison {
  Cell cell;
  std::string peer;      // the one with the least median
  std::string peer_way;  // its algorithm
  std::optional<Estimate> peer_time;
  std::optional<Estimate> direct_time;
  std::optional<Estimate> keel_time;    // every operation waited for, as MPI's calls do
  std::optional<Estimate> stream_time;  // operations enqueued, and waited for together
  std::optional<Estimate> peer_ratio;   // peer / Keel
  std::optional<Estimate> direct_ratio;
  std::optional<Estimate> stream_ratio;     // peer / Keel's stream
  std::optional<Estimate> peer_over_bound;  // peer / direct: what there is to be had
};

std::vector<Comparison> compare(const Samples& samples,
                                std::span<const LaunchedContender> contenders, Setting setting);

// Of the first, in the second's time, in rounds that both have; nothing without any.
std::optional<Estimate> ratio_of(const Rounds& first, const Rounds& second);

// Of positive values; not empty.
double geometric_mean(std::span<const double> values);

// Sizes below which waiting decides, and from which on memory does.
inline constexpr uint64_t kLarge = 64 << 10;

// What a ratio is to reach, or the lower end of its interval.
struct Target {
  double bound = 0;
  bool of_low = false;
};
// Of peer / Keel, in the mean and in each cell, below or from kLarge; and of direct / Keel in a
// cell. Nothing where no target is set.
std::optional<Target> mean_target(Setting setting, bool large);
std::optional<Target> peer_target(Setting setting, uint64_t bytes);
std::optional<Target> direct_target(Setting setting, uint64_t bytes);
// Nothing where there is no target, or no ratio.
std::optional<bool> is_met(const std::optional<Target>& target,
                           const std::optional<Estimate>& ratio);

// Of the medians of one kind of ratio, of the cells below or from kLarge; nothing where no
// cell has one.
std::optional<double> mean_ratio(std::span<const Comparison> comparisons,
                                 std::optional<Estimate> Comparison::*ratio, bool large);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_COMPARISON_H_
