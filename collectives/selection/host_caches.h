// SPDX-License-Identifier: Apache-2.0
// Sizes of the host's CPU caches.
#ifndef KEEL_COLLECTIVES_SELECTION_HOST_CACHES_H_
#define KEEL_COLLECTIVES_SELECTION_HOST_CACHES_H_

#include <cstdint>

namespace keel {

// Bytes. The defaults apply if the system reports no size.
struct HostCaches {
  uint64_t own = 1 << 20;    // second-level cache of a core
  uint64_t last = 32 << 20;  // last-level cache, of all cores or of the caller's part of the cores

  // Sizes for this host; constant in a process.
  static HostCaches get();
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_HOST_CACHES_H_
