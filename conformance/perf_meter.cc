// SPDX-License-Identifier: Apache-2.0
#include "conformance/perf_meter.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace keel::conformance {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Run>
double seconds_of(const Run& run) {
  const Clock::time_point start = Clock::now();
  run();
  return seconds_since(start);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr int kFewestRounds = 3;
constexpr int kMostRounds = 15;
constexpr double kRoundsInAShare = 10;

}  // namespace

double PerfMeter::time(const std::function<void(uint64_t)>& batch) const {
  constexpr uint64_t kMostRuns = 1 << 14;
  batch(1);
  uint64_t runs = 1;
  while (runs < kMostRuns && seconds_of([&] { batch(runs); }) < share_ / kRoundsInAShare / 2) {
    runs *= 2;
  }
  const Clock::time_point start = Clock::now();
  std::vector<double> rounds;
  while (rounds.size() < kFewestRounds ||
         (rounds.size() < kMostRounds && seconds_since(start) < share_)) {
    rounds.push_back(seconds_of([&] { batch(runs); }) / static_cast<double>(runs));
  }
  return median(std::move(rounds));
}

double PerfMeter::time_enqueue(const std::function<void()>& enqueue,
                               const std::function<void()>& drain) const {
  constexpr int kCalls = 64;
  const auto round = [&] {
    const double seconds = seconds_of([&] {
      for (int i = 0; i < kCalls; ++i) enqueue();
    });
    drain();
    return seconds / kCalls;
  };
  round();
  const Clock::time_point start = Clock::now();
  std::vector<double> rounds;
  while (rounds.size() < kFewestRounds ||
         (rounds.size() < 8 * kMostRounds && seconds_since(start) < share_ / 2)) {
    rounds.push_back(round());
  }
  return median(std::move(rounds));
}

uint64_t PerfMeter::largest_that_fits(uint64_t from, uint64_t to, double growth,
                                      const std::function<void(uint64_t)>& run) const {
  uint64_t size = std::min(from, to);
  while (true) {
    run(size);
    const double seconds = seconds_of([&] { run(size); });
    if (size >= to || seconds * growth > share_ / kRoundsInAShare) return size;
    size = std::min(4 * size, to);
  }
}

double measure_memcpy(uint64_t bytes, unsigned threads) {
  constexpr int kRounds = 5;
  const std::vector<std::byte> source(bytes, std::byte{1});
  std::vector<std::byte> destination(bytes);
  std::vector<double> rounds;
  std::barrier<> meet(static_cast<ptrdiff_t>(threads));
  const auto copy = [&](unsigned thread) {
    const uint64_t begin = bytes * thread / threads;
    const uint64_t end = bytes * (thread + 1) / threads;
    for (int round = 0; round <= kRounds; ++round) {
      meet.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      std::memcpy(destination.data() + begin, source.data() + begin, end - begin);
      meet.arrive_and_wait();
      if (thread == 0 && round != 0) rounds.push_back(seconds_since(start));
    }
  };
  std::vector<std::thread> others;
  for (unsigned thread = 1; thread < threads; ++thread) others.emplace_back(copy, thread);
  copy(0);
  for (std::thread& other : others) other.join();
  return static_cast<double>(bytes) / median(std::move(rounds));
}

HostMemoryRoof measure_host_memory(uint64_t bytes) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  HostMemoryRoof roof;
  unsigned threads = 1;
  while (true) {
    const double rate = measure_memcpy(bytes, threads);
    if (threads == 1) roof.by_one_thread = rate;
    if (rate > roof.bytes_per_second) {
      roof.bytes_per_second = rate;
      roof.threads = threads;
    }
    if (threads == cores) return roof;
    threads = std::min(2 * threads, cores);
  }
}

}  // namespace keel::conformance
