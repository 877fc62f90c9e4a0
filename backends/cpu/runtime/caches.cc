// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/caches.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace keel::cpu {

int64_t first_cache_ways() {
  static const int64_t ways = std::max<int64_t>(0, sysconf(_SC_LEVEL1_DCACHE_ASSOC));
  return ways;
}

int64_t second_cache() {
  constexpr int64_t kLeast = int64_t{1} << 19;
  static const int64_t bytes = std::max<int64_t>(kLeast, sysconf(_SC_LEVEL2_CACHE_SIZE));
  return bytes;
}

int64_t last_cache() {
  static const int64_t bytes = [] {
    // Parses "32768K". sysconf() takes ten times as long for this value on AMD processors (glibc
    // 2.36).
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
    int64_t count = 0;
    char unit = 0;
    if (!(file >> count >> unit) || count <= 0) return INT64_MAX;
    return unit == 'K' ? count << 10 : unit == 'M' ? count << 20 : INT64_MAX;
  }();
  return bytes;
}

}  // namespace keel::cpu
