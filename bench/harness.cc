// SPDX-License-Identifier: Apache-2.0
#include "bench/harness.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <utility>

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

double time_runs(const Contender& contender, uint64_t repetitions) {
  if (contender.time) return contender.time(repetitions);
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < repetitions; ++i) contender.run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the number of runs that fill a round. Doubling also warms up: the last trial alone takes
// half a round.
uint64_t fill_round(const Contender& contender, double round_seconds) {
  constexpr uint64_t kMost = uint64_t{1} << 24;  // if the clock stands still
  time_runs(contender, /*repetitions=*/1);       // compiles kernels, creates pools
  uint64_t repetitions = 1;
  while (true) {
    const double seconds = time_runs(contender, repetitions);
    if (seconds >= round_seconds || repetitions >= kMost) return repetitions;
    if (seconds >= round_seconds / 2) {
      return static_cast<uint64_t>(
          std::ceil(static_cast<double>(repetitions) * round_seconds / seconds));
    }
    repetitions *= 2;
  }
}

template <typename Compare>
Estimate compare_rounds(const Timings& subject, const Timings& peer, Compare compare) {
  std::vector<double> compared(subject.seconds.size());
  for (size_t round = 0; round < compared.size(); ++round) {
    compared[round] = compare(subject.seconds[round], peer.seconds[round]);
  }
  return estimate_median(compared);
}

}  // namespace

std::vector<Timings> race(std::span<const Contender> contenders, const RaceOptions& options) {
  const double round_seconds = std::chrono::duration<double>(options.round_time).count();
  std::vector<Timings> timings;
  for (const Contender& contender : contenders) {
    timings.push_back(
        {contender.name, contender.work, fill_round(contender, round_seconds), /*seconds=*/{}});
    std::this_thread::sleep_for(options.pause);
  }
  constexpr uint32_t kLeastRounds = 5;
  const Clock::time_point start = Clock::now();
  for (uint32_t round = 0; round < options.rounds; ++round) {
    if (round >= kLeastRounds && Clock::now() - start > options.enough) break;
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t next = (round + turn) % contenders.size();
      const uint64_t repetitions = timings[next].repetitions;
      timings[next].seconds.push_back(time_runs(contenders[next], repetitions) /
                                      static_cast<double>(repetitions));
      std::this_thread::sleep_for(options.pause);
    }
  }
  return timings;
}

double median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  if (values.size() % 2 != 0) return values[middle];
  const double below =
      *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle));
  return (below + values[middle]) / 2;
}

double fastest(const Timings& timings) {
  return *std::min_element(timings.seconds.begin(), timings.seconds.end());
}

Timings geometric_mean(std::string name, std::span<const Timings* const> parts) {
  const auto mean_of = [&](const auto& value_of) {
    double logarithms = 0;
    for (const Timings* part : parts) logarithms += std::log(value_of(*part));
    return std::exp(logarithms / static_cast<double>(parts.size()));
  };
  size_t rounds = parts.front()->seconds.size();
  for (const Timings* part : parts) rounds = std::min(rounds, part->seconds.size());
  Timings mean = {std::move(name), mean_of([](const Timings& part) { return part.work; }),
                  /*repetitions=*/1, std::vector<double>(rounds)};
  for (size_t round = 0; round < rounds; ++round) {
    mean.seconds[round] = mean_of([&](const Timings& part) { return part.seconds[round]; });
  }
  return mean;
}

Estimate estimate_median(std::span<const double> values) {
  constexpr size_t kResamples = 4000;
  std::mt19937_64 random(/*seed=*/1);
  std::uniform_int_distribution<size_t> pick(0, values.size() - 1);
  std::vector<double> medians(kResamples);
  std::vector<double> resample(values.size());
  for (double& resampled : medians) {
    for (double& value : resample) value = values.data()[pick(random)];
    resampled = median(resample);
  }
  std::sort(medians.begin(), medians.end());
  return {median({values.begin(), values.end()}), medians[kResamples / 40],
          medians[kResamples - kResamples / 40 - 1]};
}

Estimate time_ratio(const Timings& subject, const Timings& peer) {
  return compare_rounds(subject, peer, [](double mine, double theirs) { return mine / theirs; });
}

Estimate time_difference(const Timings& subject, const Timings& peer) {
  return compare_rounds(subject, peer, [](double mine, double theirs) { return mine - theirs; });
}

Estimate rate_ratio(const Timings& subject, const Timings& peer) {
  return compare_rounds(subject, peer, [&](double mine, double theirs) {
    return (subject.work / mine) / (peer.work / theirs);
  });
}

}  // namespace keel::bench
