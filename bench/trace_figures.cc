// SPDX-License-Identifier: Apache-2.0
// Cost of a trace while it is written.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kTraced[] = "with a trace";
constexpr char kUntraced[] = "without";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Matrix products on one stream of the CPU.
class Products {
 public:
  Products(Device device, int64_t size)
      : size_(size),
        stream_(device),
        a_(Buffer::of<float>(device, elements())),
        b_(Buffer::of<float>(device, elements())),
        c_(Buffer::of<float>(device, elements())),
        matmul_(KEEL_OP_MATMUL,
                {a_.tensor<float>({size, size}), b_.tensor<float>({size, size}), nullptr},
                {c_.tensor<float>({size, size})}, {0, 0, 1.0, 0.0, 0}) {
    stream_.fill<float>(a_, 1.0f);
    stream_.fill<float>(b_, 0.5f);
    run(2);
  }
  int64_t size() const { return size_; }
  void run(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) matmul_.run(stream_);
    stream_.synchronize();
  }
  // Returns the seconds per product over |count| products.
  double time(uint64_t count) {
    const Clock::time_point start = Clock::now();
    run(count);
    return seconds_since(start) / static_cast<double>(count);
  }

 private:
  uint64_t elements() const { return static_cast<uint64_t>(size_ * size_); }

  const int64_t size_;
  Stream stream_;
  const Buffer a_;
  const Buffer b_;
  const Buffer c_;
  const OpCall matmul_;
};

// Returns the smallest matrix size, a multiple of 16, whose product takes |seconds|.
int64_t size_that_takes(Device device, double seconds) {
  constexpr int64_t kStep = 16;
  constexpr int64_t kLargest = 4096;
  for (int64_t size = kStep; size < kLargest; size += kStep) {
    Products products(device, size);
    double fastest_seconds = products.time(4);
    for (int i = 0; i < 4; ++i) fastest_seconds = std::min(fastest_seconds, products.time(4));
    if (fastest_seconds >= seconds) return size;
  }
  return kLargest;
}

// Alternates the contenders like race(). The start of a trace, and the final write at its end, are
// not timed.
std::vector<Timings> time_in_turns(Products& products, uint64_t count, const RaceOptions& options) {
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("keel_bench_trace.{}.json", static_cast<long>(getpid()));
  std::vector<Timings> timings = {{kTraced, 1, count, {}}, {kUntraced, 1, count, {}}};
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (size_t turn = 0; turn < timings.size(); ++turn) {
      Timings& timed = timings[(round + turn) % timings.size()];
      const bool traced = timed.name == kTraced;
      if (traced) check(keel_trace_start(path.c_str()));
      products.run(2);
      timed.seconds.push_back(products.time(count));
      if (traced) check(keel_trace_stop());
    }
  }
  std::filesystem::remove(path);
  return timings;
}

Figure trace_of(const std::string& name, double seconds, const Setup& setup) {
  Products products(*setup.cpu, size_that_takes(*setup.cpu, seconds));
  // Long enough that waking a thread or two, or a preemption, weighs little.
  const double round_seconds = 10 * std::chrono::duration<double>(setup.race.round_time).count();
  const auto count = static_cast<uint64_t>(std::max(8.0, round_seconds / seconds));
  Figure figure;
  figure.name = "core_trace/" + name;
  figure.about = fmt::format(
      "a float32 product of two {0} x {0} matrices on the CPU, {1} enqueued before the wait, while "
      "a trace is written, against the same without.",
      products.size(), count);
  figure.unit = Unit::kMicroseconds;
  figure.timings = time_in_turns(products, count, setup.race);
  figure.subject = kTraced;
  figure.peer = figure.limit = kUntraced;
  figure.target = Target{1.02};
  return figure;
}

}  // namespace

std::vector<Figure> core_trace(Setup& setup) {
  if (!setup.cpu) return {Figure::skip("core_trace", setup.no_cpu)};
  return {trace_of("100us", 100e-6, setup), trace_of("1ms", 1e-3, setup)};
}

}  // namespace keel::bench
