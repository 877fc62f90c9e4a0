// SPDX-License-Identifier: Apache-2.0
#include "bench/machine.h"

#include <fmt/format.h>
#include <keel/keel.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "bench/onednn_peer.h"

namespace keel::bench {

namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";  // ARM kernels do not report a name
}

uint32_t usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

uint64_t cache_bytes() {
  constexpr uint64_t kGuess = uint64_t{32} << 20;
  const int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : kGuess;
}

Machine examine_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  machine.cores = usable_cores();
  machine.load_before = load_average();
  machine.date = utc_now();
#if defined(__clang__)
  machine.compiler = "clang " __clang_version__;
#else
  machine.compiler = "g++ " __VERSION__;
#endif
  const uint32_t version = keel_version();
  machine.keel = fmt::format("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
  machine.onednn = OnednnPeer::describe();
  return machine;
}

}  // namespace keel::bench
