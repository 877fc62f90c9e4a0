// SPDX-License-Identifier: Apache-2.0
// The caches of this machine's cores, in bytes; what nobody says of them is a guess.
#ifndef KEEL_BACKENDS_CPU_CACHES_H_
#define KEEL_BACKENDS_CPU_CACHES_H_

#include <cstdint>

namespace keel::cpu {

// Ways of a core's first cache; 0: unknown.
int64_t first_cache_ways();
// Of a core's second one.
int64_t second_cache();
// Of the last one, which cores share; where nobody says, as large as any.
int64_t last_cache();

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_CACHES_H_
