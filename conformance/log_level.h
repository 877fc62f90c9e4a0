// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_LOG_LEVEL_H_
#define KEEL_CONFORMANCE_LOG_LEVEL_H_

#include <keel/abi.h>

namespace keel::conformance {

// Returns the level that KEEL_LOG names, or KEEL_LOG_WARNING.
keel_log_level asked_log_level();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LOG_LEVEL_H_
