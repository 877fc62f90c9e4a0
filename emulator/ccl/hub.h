// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_HUB_H_
#define KEEL_EMULATOR_CCL_HUB_H_

#include "emulator/status.h"

namespace keel::emulator::ccl {

// Starts the bootstrap root of this process, which runs until the process ends: ranks in other
// processes of this user can then join by the ids that this process makes, and this process
// computes their operations. Returns kUnavailable on failure. Thread-safe. Analogue: the root that
// ncclGetUniqueId starts.
Status open_hub();

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_HUB_H_
