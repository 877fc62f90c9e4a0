// SPDX-License-Identifier: Apache-2.0
#include "conformance/log_level.h"

#include <cstdlib>

#include "core/log_level.h"

namespace keel::conformance {

keel_log_level asked_log_level() {
  const char* const asked = std::getenv("KEEL_LOG");
  return find_log_level(asked == nullptr ? "" : asked).value_or(KEEL_LOG_WARNING);
}

}  // namespace keel::conformance
