// SPDX-License-Identifier: Apache-2.0
// The levels of messages by the names that KEEL_LOG has for them.
#ifndef KEEL_CORE_LOG_LEVEL_H_
#define KEEL_CORE_LOG_LEVEL_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace keel {

// In the order of the levels.
inline constexpr std::array<std::string_view, 6> kLogLevelNames = {"trace",   "debug", "info",
                                                                   "warning", "error", "off"};

// Returns the level called |name|; empty if there is none.
inline std::optional<keel_log_level> find_log_level(std::string_view name) {
  for (uint32_t level = 0; level < kLogLevelNames.size(); ++level) {
    if (kLogLevelNames[level] == name) return level;
  }
  return {};
}

}  // namespace keel

#endif  // KEEL_CORE_LOG_LEVEL_H_
