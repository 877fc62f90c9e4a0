// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_chip.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/chip.h"
#include "core/device.h"
#include "core/log.h"

namespace keel {

namespace {

bool is_one_chip(const Device& a, const Device& b) {
  const std::vector<uint32_t> chips = number_chips({a.info(), b.info()});
  return chips[0] == chips[1];
}

// Returns whether this process has not been told of the pair yet.
bool note_pair(const std::string& a, const std::string& b) {
  static std::mutex mutex;
  static auto& known = *new std::set<std::pair<std::string, std::string>>;
  const std::lock_guard lock(mutex);
  return known.insert(std::minmax(a, b)).second;
}

}  // namespace

void warn_of_shared_chip(const Team& team, uint32_t rank) {
  const Device* const own = team.device(rank);
  for (uint32_t other = 0; other < team.world(); ++other) {
    const Device* const device = team.device(other);  // NULL in other processes
    if (device == nullptr || &device->backend() == &own->backend()) continue;
    if (!is_one_chip(*own, *device) || !note_pair(own->name(), device->name())) continue;
    log(KEEL_LOG_WARNING, "{} and {} drive one chip: they share its memory and time",
        team.name(std::min(rank, other)), team.name(std::max(rank, other)));
  }
}

}  // namespace keel
