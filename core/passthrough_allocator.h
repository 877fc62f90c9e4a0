// SPDX-License-Identifier: Apache-2.0
// Passthrough allocator, KEEL_ALLOC=exact: each block is one plugin allocation of exactly the
// requested size, and no memory is cached. Tools that watch allocations (compute-sanitizer, the
// emulated driver) thus detect out-of-bounds accesses and use after free.
#ifndef KEEL_CORE_PASSTHROUGH_ALLOCATOR_H_
#define KEEL_CORE_PASSTHROUGH_ALLOCATOR_H_

#include <atomic>

#include "core/status.h"

namespace keel::passthrough_allocator {

extern std::atomic<bool> g_enabled;

// Reads the environment; call before any device is used.
Status configure();
inline bool enabled() {
  return g_enabled.load(std::memory_order_relaxed);
}

}  // namespace keel::passthrough_allocator

#endif  // KEEL_CORE_PASSTHROUGH_ALLOCATOR_H_
