// SPDX-License-Identifier: Apache-2.0
// The plugin calls in progress, for the analysis of a crash or hang: a file with one line per
// thread, which outlives the process. KEEL_VALIDATE_CALLS names the file; the layer does not change
// its size.
#ifndef KEEL_CORE_VALIDATION_CALL_NOTES_H_
#define KEEL_CORE_VALIDATION_CALL_NOTES_H_

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <type_traits>

namespace keel::validation {

// Bytes per line of the file: the text and a 0, or all zeroes.
inline constexpr size_t kCallNoteBytes = 256;

// Starts the notes if the environment says so. The file stays mapped.
void open_call_notes();
extern std::atomic<std::byte*> g_call_notes;
inline bool notes_calls() {
  return g_call_notes.load(std::memory_order_relaxed) != nullptr;
}
// Write and clear the calling thread's line.
void begin_call_note(const std::string& text);
void end_call_note();

// One argument of a call: a number, an address, "function" or, for other types, "...".
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

// Notes one call while alive.
class CallNote {
 public:
  template <typename... Arguments>
  explicit CallNote(const char* name, const Arguments&... arguments) : is_noted_(notes_calls()) {
    if (!is_noted_) return;
    std::string text;
    ((text += (text.empty() ? "" : ", ") + note_of(arguments)), ...);
    begin_call_note(fmt::format("{}({})", name, text));
  }
  ~CallNote() {
    if (is_noted_) end_call_note();
  }
  CallNote(const CallNote&) = delete;
  CallNote& operator=(const CallNote&) = delete;

 private:
  const bool is_noted_;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_CALL_NOTES_H_
