// SPDX-License-Identifier: Apache-2.0
// The bridge between chips with unequal links: its time compared with the links' limit.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/figures.h"
#include "bench/reducing_ranks.h"

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

// Rate of the slowest link, in both directions at once. The host must do all copying and reducing
// in less than half of the time: four chips at this rate need about 0.6 of a core.
constexpr double kSlowest = 0.25;  // GB/s
// Paced transfers hardly vary, and 256 MiB take a second.
constexpr uint32_t kMostRounds = 7;
constexpr uint64_t kMebibytes[] = {16, 64, 256};
// The links' rates, as multiples of the slowest.
const std::vector<std::vector<double>> kRatios = {
    {1, 1}, {1, 4}, {1, 1, 1}, {1, 2, 4}, {1, 1, 1, 1}, {1, 2, 3, 4}, {1, 1, 1, 9},
};

std::string profile(double rate) {
  return fmt::format(
      R"({{"name": "link of {0} GB/s", "memory_gb_per_s": 200, "launch_latency_us": 5,
  "copy_gb_per_s": {{"host_to_device": {0}, "device_to_host": {0}, "peer": {0}}},
  "tflops": {{"float32": 1}}}})",
      rate);
}

// Emulated chips by link rate, each an instance of `sim`.
class Chips {
 public:
  // Returns false without `sim`.
  bool find() {
    for (const keel_backend_info& backend : backends()) {
      if (std::string(backend.name) == "sim") path_ = backend.path;
    }
    return !path_.empty();
  }
  // Returns chip number |number| with |rate|.
  Device get(double rate, size_t number) {
    std::vector<Device>& chips = chips_[rate];
    while (chips.size() <= number) chips.push_back(load(rate));
    return chips[number];
  }

 private:
  Device load(double rate) {
    char file[] = "/tmp/keel-profile-XXXXXX";
    const int descriptor = mkstemp(file);
    if (descriptor < 0) throw std::runtime_error("no file can be made in /tmp");
    close(descriptor);
    std::ofstream(file) << profile(rate);
    const char* key = "profile";
    const char* value = file;
    auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
    settings.count = 1;
    settings.keys = &key;
    settings.values = &value;
    uint32_t index = 0;
    const keel_status loaded = keel_plugin_load(path_.c_str(), &settings, nullptr, &index);
    unlink(file);
    check(loaded);
    return Device::find(backends().at(index).name);
  }

  std::string path_;
  std::map<double, std::vector<Device>> chips_;
};

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One rank per chip; also measures the host's load.
class Exchange {
 public:
  Exchange(const std::vector<Device>& devices, uint64_t bytes)
      : ranks_(devices, bytes / sizeof(float)) {
    // The first run measures the rates, the second one shares them, the third one uses them.
    for (int i = 0; i < 2; ++i) run();
    busy_ = wall_ = 0;
  }

  void run() {
    const double busy = cpu_seconds();
    const auto begin = Clock::now();
    ranks_.run();
    wall_ += std::chrono::duration<double>(Clock::now() - begin).count();
    busy_ += cpu_seconds() - busy;
  }
  // Load of all cores during the runs.
  double load() const { return busy_ / wall_ / std::max(1u, std::thread::hardware_concurrency()); }
  void check_sums() { ranks_.check_sums(); }

 private:
  ReducingRanks ranks_;
  double busy_ = 0;
  double wall_ = 0;
};

Figure exchange(const std::vector<double>& ratios, uint64_t mebibytes, Chips& chips,
                const Setup& setup) {
  std::vector<Device> devices;
  for (size_t rank = 0; rank < ratios.size(); ++rank) {
    const auto before = ratios.begin() + static_cast<std::ptrdiff_t>(rank);
    const auto same = std::count(ratios.begin(), before, ratios[rank]);
    devices.push_back(chips.get(kSlowest * ratios[rank], static_cast<size_t>(same)));
  }
  const uint64_t bytes = mebibytes << 20;
  const auto size = static_cast<double>(bytes);
  Exchange ranks(devices, bytes);
  const Contender contenders[] = {{"Keel", size, [&] { ranks.run(); }}};
  RaceOptions options = setup.race;
  options.rounds = std::min(options.rounds, kMostRounds);
  Figure figure;
  figure.timings = race(contenders, options);
  const double load = ranks.load();
  ranks.check_sums();

  // Each link carries everything each way at once, and the host reduces.
  const double bound = size / (kSlowest * 1e9);
  figure.timings.push_back({"bound", size, 1, std::vector<double>(options.rounds, bound)});
  figure.name = fmt::format("bridge_exchange/{}/{}MiB", fmt::join(ratios, ":"), mebibytes);
  figure.about = fmt::format(
      "sum of {} MiB float32 over emulated chips with links of {} times {} GB/s each way, against "
      "S / slowest link. CPU load meanwhile: {:.0f}%.",
      mebibytes, fmt::join(ratios, ":"), kSlowest, load * 100);
  figure.unit = Unit::kMilliseconds;
  figure.subject = "Keel";
  figure.peer = "bound";
  figure.limit = "bound";
  figure.target = Target{1 / 0.95};
  return figure;
}

}  // namespace

std::vector<Figure> bridge_exchange(Setup& setup) {
  const std::string name = "bridge_exchange";
  Chips chips;
  if (!chips.find()) return {Figure::skip(name, "there is no backend sim")};
  std::vector<Figure> figures;
  for (const std::vector<double>& ratios : kRatios) {
    for (uint64_t mebibytes : kMebibytes) {
      figures.push_back(exchange(ratios, mebibytes, chips, setup));
    }
  }
  return figures;
}

}  // namespace keel::bench
