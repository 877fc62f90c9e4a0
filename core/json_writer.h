// SPDX-License-Identifier: Apache-2.0
// JSON text, written as it goes: needs memory for the text alone, so that a lack of it is an
// exception where one may be thrown (a tree of values may want some to be destroyed).
#ifndef KEEL_CORE_JSON_WRITER_H_
#define KEEL_CORE_JSON_WRITER_H_

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace keel {

// Appends |text| as a JSON string with its quotes. Bytes that are no UTF-8 come out as
// U+FFFD, since a reader would refuse the whole file for one.
void append_json_string(std::string& out, std::string_view text);

// Values one below the other, those inside others two blanks further in. The caller closes what
// it opens, and gives each member of an object a key.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(*out) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  // What the value that follows is called.
  JsonWriter& key(std::string_view name);
  void text(std::string_view value);
  void text_or_null(const char* value);
  void boolean(bool value);
  void null();
  void number(double value);  // null where it is none
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
  size_t depth_ = 0;
  bool is_first_ = true;  // of the object or array that is open
  bool has_key_ = false;  // that waits for its value
};

}  // namespace keel

#endif  // KEEL_CORE_JSON_WRITER_H_
