// SPDX-License-Identifier: Apache-2.0
// The host's memory, counted, and run out of on demand: programs linked with this have an
// operator new of their own.
#ifndef KEEL_CORE_TESTING_HOST_MEMORY_H_
#define KEEL_CORE_TESTING_HOST_MEMORY_H_

#include <cstdint>

namespace keel::testing {

// Allocations of this thread so far.
extern constinit thread_local uint64_t t_allocations;
// Allocations of this thread until one fails; negative: none does.
extern constinit thread_local int t_until_failure;

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_HOST_MEMORY_H_
