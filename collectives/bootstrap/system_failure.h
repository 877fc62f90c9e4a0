// SPDX-License-Identifier: Apache-2.0
// Status of failed system calls.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SYSTEM_FAILURE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SYSTEM_FAILURE_H_

#include <string_view>

#include "core/status.h"

namespace keel {

// Returns the failure of |what| with errno |error|. KEEL_UNAVAILABLE for too many open files, with
// the limit if this process has reached its own; KEEL_OUT_OF_MEMORY; KEEL_PERMISSION_DENIED; else
// KEEL_INTERNAL.
Status system_failure(int error, std::string_view what);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SYSTEM_FAILURE_H_
