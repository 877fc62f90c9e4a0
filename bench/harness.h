// SPDX-License-Identifier: Apache-2.0
// Times contenders in turn, A B C A B C ..., so a slow phase of the machine affects all contenders.
// Comparisons use the pairs of a round.
#ifndef KEEL_BENCH_HARNESS_H_
#define KEEL_BENCH_HARNESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace keel::bench {

struct Contender {
  std::string name;
  double work;                // of one run: floating-point operations or bytes; 1 if
                              // only time matters
  std::function<void()> run;  // returns when the work is done
  // Replaces |run| where a clock other than the host's measures the time, for example a device's:
  // does |repetitions| runs and returns their total seconds.
  std::function<double(uint64_t repetitions)> time = nullptr;
};

struct Timings {
  std::string name;
  double work;
  uint64_t repetitions;         // runs timed together per round
  std::vector<double> seconds;  // per run; a value per round
};

struct RaceOptions {
  uint32_t rounds = 21;
  // Runs of a contender repeat until a round takes this long, so that the clock's resolution and
  // one preemption (1 to 4 ms) weigh little.
  std::chrono::nanoseconds round_time = std::chrono::milliseconds(20);
  // Pause between contenders: OpenMP's threads spin for a millisecond or two after their last
  // parallel region, on cores needed by the next contender.
  std::chrono::nanoseconds pause = std::chrono::milliseconds(5);
  // After this time no new round starts, except the first five: runs of a second each must do with
  // fewer rounds.
  std::chrono::nanoseconds enough = std::chrono::nanoseconds::max();
};

// Warms up, then times. Each round starts with the next contender in turn: no contender always runs
// after the same predecessor. Exceptions of contenders propagate.
std::vector<Timings> race(std::span<const Contender> contenders, const RaceOptions& options = {});

// |values| is not empty.
double median(std::vector<double> values);
double fastest(const Timings& timings);
// Combines a contender's timings from several comparisons: geometric means of the work and, round
// by round, of the seconds, so the ratio of two results is the geometric mean of the ratios. Rounds
// missing in any part are dropped. |parts| is not empty.
Timings geometric_mean(std::string name, std::span<const Timings* const> parts);

// A median with its 95% confidence interval.
struct Estimate {
  double median;
  double low;
  double high;
};
// Percentile bootstrap with 4000 resamples; deterministic for equal |values|.
Estimate estimate_median(std::span<const double> values);

// Returns subject's time divided by peer's time, per run, over the rounds.
Estimate time_ratio(const Timings& subject, const Timings& peer);
// Returns subject's time minus peer's time, in seconds.
Estimate time_difference(const Timings& subject, const Timings& peer);
// Returns subject's work per second divided by peer's.
Estimate rate_ratio(const Timings& subject, const Timings& peer);

}  // namespace keel::bench

#endif  // KEEL_BENCH_HARNESS_H_
