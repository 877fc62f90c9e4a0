// SPDX-License-Identifier: Apache-2.0
#include "conformance/log_level.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace keel::conformance {

keel_log_level asked_log_level() {
  constexpr std::string_view kNames[] = {"trace",   "debug", "info",
                                         "warning", "error", "off"};  // in the levels' order
  const char* const asked = std::getenv("KEEL_LOG");
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), asked ? asked : "");
  if (found == std::end(kNames)) return KEEL_LOG_WARNING;
  return static_cast<keel_log_level>(KEEL_LOG_TRACE + (found - std::begin(kNames)));
}

}  // namespace keel::conformance
