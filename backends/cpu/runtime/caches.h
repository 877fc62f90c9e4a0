// SPDX-License-Identifier: Apache-2.0
// Cache sizes of this machine's cores, in bytes, with a fallback where the system reports none.
#ifndef KEEL_BACKENDS_CPU_RUNTIME_CACHES_H_
#define KEEL_BACKENDS_CPU_RUNTIME_CACHES_H_

#include <cstdint>

namespace keel::cpu {

// Associativity of a core's first-level data cache; 0: unknown.
int64_t first_cache_ways();
// Size of a core's second-level cache, at least 512 KiB.
int64_t second_cache();
// Size of the shared last-level cache; INT64_MAX where the system reports none.
int64_t last_cache();

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_CACHES_H_
