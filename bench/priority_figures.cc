// SPDX-License-Identifier: Apache-2.0
// Effect of priority on a small collective beside large ones, and its cost for the large ones.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLargeBytes = 64 << 20;
constexpr uint64_t kSmallBytes = 8 << 10;
constexpr auto kPeriod = std::chrono::milliseconds(1);  // between two small operations
constexpr auto kTick = std::chrono::microseconds(50);
constexpr auto kRound = std::chrono::milliseconds(200);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The ranks of one communicator, all on one CPU device, which repeat an in-place sum.
class Lane {
 public:
  Lane(Device device, uint32_t world, uint64_t bytes, keel_comm_priority priority)
      : count_(bytes / sizeof(float)), comms_(connect(device, world, priority)) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      streams_.emplace_back(device);
      data_.push_back(Buffer::of<float>(device, count_));
      streams_.back().fill(data_.back(), 0.0f);
      streams_.back().synchronize();
    }
  }
  void call() {
    for (size_t rank = 0; rank < comms_.size(); ++rank) {
      void* const data = data_[rank].data();
      comms_[rank].all_reduce(data, data, count_, KEEL_FLOAT32, KEEL_SUM, streams_[rank]);
    }
  }
  void wait() {
    for (const Stream& stream : streams_) stream.synchronize();
  }

 private:
  static std::vector<Communicator> connect(Device device, uint32_t world,
                                           keel_comm_priority priority) {
    keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.priority = priority;
    return Communicator::all(std::vector<Device>(world, device), &options);
  }

  const uint64_t count_;
  std::vector<Communicator> comms_;
  std::vector<Stream> streams_;
  std::vector<Buffer> data_;
};

// Runs large all_reduces one after the other in its own thread, during the object's lifetime.
class LargeTraffic {
 public:
  explicit LargeTraffic(Lane& lane) : thread_([this, &lane] { run(lane); }) {
    while (done_.load() == 0 && !failed_.load()) std::this_thread::sleep_for(kTick);
  }
  ~LargeTraffic() {
    stopping_.store(true);
    thread_.join();
  }
  LargeTraffic(const LargeTraffic&) = delete;
  LargeTraffic& operator=(const LargeTraffic&) = delete;
  uint64_t done() const {
    if (failed_.load()) throw std::runtime_error("a large all_reduce failed");
    return done_.load();
  }

 private:
  void run(Lane& lane) {
    try {
      while (!stopping_.load()) {
        lane.call();
        lane.wait();
        done_.fetch_add(1);
      }
    } catch (const std::exception&) {
      failed_.store(true);
    }
  }
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> done_{0};
  std::thread thread_;
};

// Runs a small operation each millisecond for one round; returns the median of their times.
double latency(Lane& lane) {
  std::vector<double> seconds;
  for (const auto begin = Clock::now(); Clock::now() - begin < kRound;) {
    const auto start = Clock::now();
    lane.call();
    lane.wait();
    seconds.push_back(seconds_since(start));
    std::this_thread::sleep_until(start + kPeriod);
  }
  return median(seconds);
}

}  // namespace

std::vector<Figure> collective_priority(Setup& setup) {
  Figure small;
  small.name = "collective_priority/small";
  if (!setup.cpu) return {Figure::skip(small.name, setup.no_cpu)};
  const uint32_t world = std::clamp(std::thread::hardware_concurrency(), 2u, 8u);
  Lane large(*setup.cpu, world, kLargeBytes, KEEL_COMM_NORMAL);
  Lane normal(*setup.cpu, world, kSmallBytes, KEEL_COMM_NORMAL);
  Lane urgent(*setup.cpu, world, kSmallBytes, KEEL_COMM_URGENT);

  // By contender: the small operation's time, and the large operation's time meanwhile.
  Timings alone{"alone", 1, 1, {}};
  Timings beside_normal{"normal, beside 64 MiB", 1, 1, {}};
  Timings beside_urgent{"urgent, beside 64 MiB", 1, 1, {}};
  Timings large_alone{"64 MiB alone", 1, 1, {}};
  Timings large_normal{"64 MiB, beside normal ones", 1, 1, {}};
  Timings large_urgent{"64 MiB, beside urgent ones", 1, 1, {}};
  const auto beside = [&](Timings& small_times, Timings& large_times, Lane* lane) {
    const LargeTraffic traffic(large);
    const uint64_t before = traffic.done();
    const auto start = Clock::now();
    if (lane != nullptr) {
      small_times.seconds.push_back(latency(*lane));
    } else {
      std::this_thread::sleep_for(kRound);
    }
    // Waits for the end of a large operation, so that only whole ones count.
    for (const uint64_t seen = traffic.done(); traffic.done() == seen;) {
      std::this_thread::sleep_for(kTick);
    }
    large_times.seconds.push_back(seconds_since(start) /
                                  static_cast<double>(traffic.done() - before));
  };
  Timings unused;
  const std::function<void()> runs[] = {
      [&] { alone.seconds.push_back(latency(urgent)); },
      [&] { beside(unused, large_alone, nullptr); },
      [&] { beside(beside_normal, large_normal, &normal); },
      [&] { beside(beside_urgent, large_urgent, &urgent); },
  };
  for (uint32_t round = 0; round < setup.race.rounds; ++round) {
    // Each round starts with the next contender.
    for (size_t turn = 0; turn < std::size(runs); ++turn) runs[(round + turn) % std::size(runs)]();
  }

  small.about = fmt::format(
      "all_reduce of 8 KiB over {} CPU ranks of one process, one each millisecond, while others of "
      "64 MiB go on: of an urgent communicator against a normal one.",
      world);
  small.timings = {beside_urgent, beside_normal, alone};
  small.subject = beside_urgent.name;
  small.peer = beside_normal.name;
  small.limit = alone.name;
  Figure cost;
  cost.name = "collective_priority/large";
  cost.about = "what the 64 MiB ones take meanwhile, against none beside them.";
  cost.unit = Unit::kMilliseconds;
  cost.timings = {large_urgent, large_alone, large_normal};
  cost.subject = large_urgent.name;
  cost.peer = large_alone.name;
  cost.limit = large_alone.name;
  return {small, cost};
}

}  // namespace keel::bench
