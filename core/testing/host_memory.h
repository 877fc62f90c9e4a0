// SPDX-License-Identifier: Apache-2.0
// Counts host allocations and makes them fail on demand: programs linked with this file have their
// own operator new.
#ifndef KEEL_CORE_TESTING_HOST_MEMORY_H_
#define KEEL_CORE_TESTING_HOST_MEMORY_H_

#include <cstdint>

namespace keel::testing {

// Allocations of this thread so far.
extern constinit thread_local uint64_t t_allocations;
// Allocations of this thread before one fails; negative: none fails.
extern constinit thread_local int t_until_failure;

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_HOST_MEMORY_H_
