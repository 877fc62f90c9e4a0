// SPDX-License-Identifier: Apache-2.0
// Ranks that drive one chip through different backends.
#ifndef KEEL_COLLECTIVES_SHARED_CHIP_H_
#define KEEL_COLLECTIVES_SHARED_CHIP_H_

#include <cstdint>

#include "collectives/team.h"

namespace keel {

// Logs a warning if |rank|, of this process, and another rank of this process drive one chip
// through different backends: the ranks share its memory and time, which a job that names two
// devices does not expect. Once per pair of devices and process. Each rank calls it after
// Team::set_device.
void warn_of_shared_chip(const Team& team, uint32_t rank);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SHARED_CHIP_H_
