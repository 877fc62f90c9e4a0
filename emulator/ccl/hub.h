// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_HUB_H_
#define KEEL_EMULATOR_CCL_HUB_H_

#include "emulator/status.h"

namespace keel::emulator::ccl {

// Lets ranks of other processes of this user meet by the ids that this process makes, from the
// first call on until it ends: their operations are worked out here. kUnavailable. Thread-safe.
// Analogue: the root that ncclGetUniqueId starts.
Status open_hub();

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_HUB_H_
