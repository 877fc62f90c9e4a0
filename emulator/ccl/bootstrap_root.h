// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_BOOTSTRAP_ROOT_H_
#define KEEL_EMULATOR_CCL_BOOTSTRAP_ROOT_H_

#include "emulator/status.h"

namespace keel::emulator::ccl {

// Starts the bootstrap root, a thread that runs until the process ends: ranks in other processes of
// the same user can then join by ids made here, and the root computes their operations. Returns
// kUnavailable on failure. Thread-safe. Analogue: the root started by ncclGetUniqueId.
Status open_bootstrap_root();

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_BOOTSTRAP_ROOT_H_
