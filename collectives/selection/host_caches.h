// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory its caches hold.
#ifndef KEEL_COLLECTIVES_SELECTION_HOST_CACHES_H_
#define KEEL_COLLECTIVES_SELECTION_HOST_CACHES_H_

#include <cstdint>

namespace keel {

// Bytes. The defaults are for where the system does not say.
struct HostCaches {
  uint64_t own = 1 << 20;    // a core's second level
  uint64_t last = 32 << 20;  // that of all cores, or of the part of them that the caller runs on

  // Of this host; the same each time.
  static HostCaches get();
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_HOST_CACHES_H_
