// SPDX-License-Identifier: Apache-2.0
// Linux namespaces of this process that ranks must share.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_NAMESPACES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_NAMESPACES_H_

#include <cstdint>
#include <string>

namespace keel {

// Returns the inode number of this process's namespace |kind| ("pid", "net") from /proc/self/ns:
// processes of one host with equal numbers share the namespace. 0 where /proc does not show the
// number.
uint64_t namespace_number(const char* kind);

// For failures of a rendezvous: names the conditions that all ranks must share, with this process's
// values, for comparison with those of another rank.
std::string rendezvous_conditions();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_NAMESPACES_H_
