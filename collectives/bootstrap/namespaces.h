// SPDX-License-Identifier: Apache-2.0
// The namespaces of this process, as far as ranks have to share them.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_NAMESPACES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_NAMESPACES_H_

#include <cstdint>
#include <string>

namespace keel {

// The number of this process's namespace of |kind| ("pid", "net"), by which /proc/self/ns names it:
// equal numbers on one host are one namespace. 0 where /proc does not show it.
uint64_t namespace_number(const char* kind);

// For failures of ranks that do not meet: what they must have in common, with the values of this
// process, to be compared with those of another.
std::string meeting_conditions();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_NAMESPACES_H_
