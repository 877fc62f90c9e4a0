// SPDX-License-Identifier: Apache-2.0
// Streaming JSON writer. Only the text takes memory, so out-of-memory is thrown only where an
// exception is allowed (destroying a tree of values may allocate).
#ifndef KEEL_CORE_JSON_WRITER_H_
#define KEEL_CORE_JSON_WRITER_H_

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace keel {

// Appends |text| as a JSON string with its quotes. Each byte that is not valid UTF-8 becomes
// U+FFFD, since a single invalid byte makes readers reject the whole file.
void append_json_string(std::string& out, std::string_view text);
// Returns |text| as append_json_string() writes it.
std::string json_string(std::string_view text);

enum class JsonLayout : uint8_t {
  kLines,   // one value per line, indented by two spaces per level
  kOneLine  // {"a": 1, "b": [2, 3]}
};

// The caller closes every object and array it opens and gives each member of an object a key.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out, JsonLayout layout = JsonLayout::kLines)
      : out_(*out), layout_(layout) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  // Writes the key of the next value.
  JsonWriter& key(std::string_view name);
  void text(std::string_view value);
  void text_or_null(const char* value);
  void boolean(bool value);
  void null();
  void number(double value);               // null if not finite
  void rounded(double value, int digits);  // number() with |digits| significant digits
  template <std::integral Integer>
  void number(Integer value) {
    begin_value();
    const fmt::format_int digits(value);
    out_.append(digits.data(), digits.size());
  }

 private:
  void open(char bracket);
  void close(char bracket);
  void begin_value();
  void begin_line();

  std::string& out_;
  const JsonLayout layout_;
  size_t depth_ = 0;
  bool is_first_ = true;  // the next value is the first of the open object or array
  bool has_key_ = false;  // a key was written, its value was not
};

}  // namespace keel

#endif  // KEEL_CORE_JSON_WRITER_H_
