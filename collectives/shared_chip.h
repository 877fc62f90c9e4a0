// SPDX-License-Identifier: Apache-2.0
// Ranks that drive one chip through different backends.
#ifndef KEEL_COLLECTIVES_SHARED_CHIP_H_
#define KEEL_COLLECTIVES_SHARED_CHIP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"

namespace keel {

// Logs a warning if |rank|, of this process, and a higher rank of any process drive one chip
// through different backends: the ranks share its memory and time, which a job that names two
// devices does not expect. Every rank of a new communicator calls it, and the lowest two ranks of a
// chip and a pair of backends are named, so a job of many processes prints one warning. A process
// repeats none for a later communicator of the same devices. |name| returns a rank's name.
void warn_of_shared_chip(const std::vector<PeerInfo>& peer_infos, uint32_t rank,
                         const std::function<std::string(uint32_t rank)>& name);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SHARED_CHIP_H_
