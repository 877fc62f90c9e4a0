// SPDX-License-Identifier: Apache-2.0
// The calls of plugins that are in progress, for whoever is left when one of them crashes or hangs:
// in a file, a line for each thread, that outlives the process. KEEL_VALIDATE_CALLS names the file,
// which the layer makes no larger and no smaller.
#ifndef KEEL_CORE_VALIDATION_CALL_NOTES_H_
#define KEEL_CORE_VALIDATION_CALL_NOTES_H_

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <type_traits>

namespace keel::validation {

// Each line of the file; with a 0 behind its text, or all zeroes.
inline constexpr size_t kCallNoteBytes = 256;

// Where the environment says so, from now on. The file stays mapped.
void open_call_notes();
extern std::atomic<std::byte*> g_call_notes;
inline bool notes_calls() {
  return g_call_notes.load(std::memory_order_relaxed) != nullptr;
}
// Writes the calling thread's line, and empties it.
void begin_call_note(const std::string& text);
void end_call_note();

template <typename Argument>
std::string note_of(const Argument& argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    if constexpr (std::is_function_v<std::remove_pointer_t<Argument>>) {
      return "function";
    } else {
      return fmt::format("{}", static_cast<const void*>(argument));
    }
  } else if constexpr (std::is_arithmetic_v<Argument>) {
    return fmt::format("{}", argument);
  } else {
    return "...";
  }
}

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_CALL_NOTES_H_
