// SPDX-License-Identifier: Apache-2.0
// Leveled messages to stderr or to the framework's callback.
#ifndef KEEL_CORE_LOG_H_
#define KEEL_CORE_LOG_H_

#include <fmt/format.h>
#include <keel/keel.h>

#include <utility>

namespace keel {

bool log_enabled(keel_log_level level);
void log_text(keel_log_level level, const char* text);
// NULL |fn| selects stderr. Thread-safe; a message in flight may still reach the previous function.
void set_log(keel_log_level level, keel_log_fn fn, void* user);

// Formats only if |level| is enabled.
template <typename... Arguments>
void log(keel_log_level level, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!log_enabled(level)) return;
  log_text(level, fmt::format(format, std::forward<Arguments>(arguments)...).c_str());
}

}  // namespace keel

#endif  // KEEL_CORE_LOG_H_
