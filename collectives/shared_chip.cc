// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_chip.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "core/chip.h"
#include "core/log.h"

namespace keel {

namespace {

// "cuda#2" of "cuda#2:0".
std::string_view backend_of(const PeerInfo& peer_info) {
  const std::string_view device = peer_info.device;
  return device.substr(0, device.rfind(':'));
}

bool is_same_way_in(const PeerInfo& a, const PeerInfo& b) {
  return a.shares_chip_with(b) && backend_of(a) == backend_of(b);
}

// Whether no lower rank drives the chip of |rank| through the same backend.
bool is_lowest(const std::vector<PeerInfo>& peer_infos, uint32_t rank) {
  for (uint32_t lower = 0; lower < rank; ++lower) {
    if (is_same_way_in(peer_infos[lower], peer_infos[rank])) return false;
  }
  return true;
}

// Returns whether this process has not been told of the pair yet. A name alone does not identify a
// device of another process, which may see other chips.
bool note_pair(const PeerInfo& a, const PeerInfo& b) {
  static std::mutex mutex;
  static auto& known = *new std::set<std::tuple<std::string, std::string, ChipId>>;
  const std::lock_guard lock(mutex);
  const auto [first, second] = std::minmax(a.device, b.device);
  return known.emplace(first, second, a.device < b.device ? a.chip.id : b.chip.id).second;
}

}  // namespace

void warn_of_shared_chip(const std::vector<PeerInfo>& peer_infos, uint32_t rank,
                         const std::function<std::string(uint32_t rank)>& name) {
  const PeerInfo& own = peer_infos[rank];
  if (!own.chip.id.is_known() || !is_lowest(peer_infos, rank)) return;
  for (uint32_t other = rank + 1; other < peer_infos.size(); ++other) {
    const PeerInfo& peer = peer_infos[other];
    if (!own.shares_chip_with(peer) || backend_of(own) == backend_of(peer)) continue;
    if (!is_lowest(peer_infos, other) || !note_pair(own, peer)) continue;
    log(KEEL_LOG_WARNING, "{} and {} drive one chip: they share its memory and time", name(rank),
        name(other));
  }
}

}  // namespace keel
