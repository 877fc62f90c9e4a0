// SPDX-License-Identifier: Apache-2.0
// KEEL_ALLOC=exact: each block is an allocation of the plugin's, of the size that was asked for,
// and nothing is cached. So whoever watches allocations (compute-sanitizer, the emulated driver)
// sees what reaches past a block, or uses one that was freed.
#ifndef KEEL_CORE_EXACT_MEMORY_H_
#define KEEL_CORE_EXACT_MEMORY_H_

#include <atomic>

#include "core/status.h"

namespace keel::exact_memory {

extern std::atomic<bool> g_enabled;

// From the environment, before any device is used.
Status configure();
inline bool enabled() {
  return g_enabled.load(std::memory_order_relaxed);
}

}  // namespace keel::exact_memory

#endif  // KEEL_CORE_EXACT_MEMORY_H_
