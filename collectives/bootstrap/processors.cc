// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/processors.h"

#include <sched.h>

#include <algorithm>
#include <bit>

namespace keel {

std::string own_processors() {
  cpu_set_t usable;
  static_assert(sizeof(usable) == kMaxProcessorBytes);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return {};
  std::string set(sizeof(usable), '\0');
  for (size_t i = 0; i < sizeof(usable) * 8; ++i) {
    if (CPU_ISSET(i, &usable)) set[i / 8] = static_cast<char>(set[i / 8] | 1 << i % 8);
  }
  set.resize(set.find_last_not_of('\0') + 1);
  return set;
}

bool are_oversubscribed(std::span<const std::string> ranks) {
  std::string all;
  for (const std::string& each : ranks) {
    if (each.empty()) return false;
    all.resize(std::max(all.size(), each.size()), '\0');
    for (size_t i = 0; i < each.size(); ++i) all[i] = static_cast<char>(all[i] | each[i]);
  }
  size_t count = 0;
  for (const char byte : all) {
    count += static_cast<size_t>(std::popcount(static_cast<uint8_t>(byte)));
  }
  return count < ranks.size();
}

}  // namespace keel
