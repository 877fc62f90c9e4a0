// SPDX-License-Identifier: Apache-2.0
// The processors that ranks may use.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_PROCESSORS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_PROCESSORS_H_

#include <cstdint>
#include <span>
#include <string>

namespace keel {

// Returns a bit for each processor that the calling thread may use, from the lowest bit of the
// first byte on, without empty bytes at the end; empty: unknown.
std::string own_processors();
// Bytes of a cpu_set_t: the kernel tells no more.
inline constexpr uint32_t kMaxProcessorBytes = 128;

// Whether ranks of one machine, whose own_processors() are |ranks|, have fewer processors together
// than there are ranks. False if those of a rank are unknown.
bool are_oversubscribed(std::span<const std::string> ranks);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_PROCESSORS_H_
