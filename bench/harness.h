// SPDX-License-Identifier: Apache-2.0
// Times contenders side by side: A B C A B C ..., so that a machine that is slower for a
// while is slower for all of them. What is compared are the pairs of one round.
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
  double work;                // of one run: floating-point operations, or bytes; 1 where
                              // only its time matters
  std::function<void()> run;  // returns when the work is done
  // In place of |run| where another clock than the host's around it counts, such as a device's:
  // does so many runs, and gives the seconds that all of them took.
  std::function<double(uint64_t repetitions)> time = nullptr;
};

struct Timings {
  std::string name;
  double work;
  uint64_t repetitions;         // runs timed together in each round
  std::vector<double> seconds;  // of one run; one value a round
};

struct RaceOptions {
  uint32_t rounds = 21;
  // Runs of a contender are repeated until a round takes this long: the clock and one
  // preemption (1 to 4 ms) then weigh little.
  std::chrono::nanoseconds round_time = std::chrono::milliseconds(20);
  // Between contenders: OpenMP's threads spin for a millisecond or two after their last
  // parallel region, on the cores of whoever comes next.
  std::chrono::nanoseconds pause = std::chrono::milliseconds(5);
  // After this long no round begins but the first five: of runs that take a second each, fewer
  // have to do.
  std::chrono::nanoseconds enough = std::chrono::nanoseconds::max();
};

// Warms up, then times. Each round starts with the next contender in turn, so that none
// always runs behind the same one. What a contender throws comes through.
std::vector<Timings> race(std::span<const Contender> contenders, const RaceOptions& options = {});

// |values| is not empty.
double median(std::vector<double> values);
double fastest(const Timings& timings);
// One contender's on several comparisons, taken together: geometric means of the work and, round by
// round, of the seconds, so that ratios of two of these are the geometric means of the ratios.
// Rounds that not all have are left out. |parts| is not empty.
Timings geometric_mean(std::string name, std::span<const Timings* const> parts);

// A median with the interval that holds it with 95% confidence.
struct Estimate {
  double median;
  double low;
  double high;
};
// By the percentile bootstrap, 4000 resamples; equal for equal |values|.
Estimate estimate_median(std::span<const double> values);

// How many times as long |subject| takes as |peer|: of one run, round by round.
Estimate time_ratio(const Timings& subject, const Timings& peer);
// How many seconds longer |subject| takes.
Estimate time_difference(const Timings& subject, const Timings& peer);
// How many times as much work a second.
Estimate rate_ratio(const Timings& subject, const Timings& peer);

}  // namespace keel::bench

#endif  // KEEL_BENCH_HARNESS_H_
