// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/host_caches.h"

#include <unistd.h>

#include <algorithm>

namespace keel {

HostCaches HostCaches::get() {
  static const HostCaches known = [] {
    HostCaches caches;
    const long own = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (own > 0) caches.own = static_cast<uint64_t>(own);
    if (last > 0) caches.last = static_cast<uint64_t>(last);
    caches.last = std::max(caches.last, caches.own);
    return caches;
  }();
  return known;
}

}  // namespace keel
