// SPDX-License-Identifier: Apache-2.0
#include "core/json_writer.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace keel {

namespace {

// Returns the bytes of the well-formed UTF-8 character at the start of |text|; 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  size_t length = 0;
  uint32_t value = 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) length = 2, value = lead & 0x1F;
  if (lead >= 0xE0 && lead < 0xF0) length = 3, value = lead & 0x0F;
  if (lead >= 0xF0 && lead < 0xF5) length = 4, value = lead & 0x07;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  return overlong || surrogate || value > 0x10FFFF ? 0 : length;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = utf8_length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    } else if (length == 0) {
      out += "\\ufffd";
    } else {
      out.append(text, 0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  begin_value();
  append_json_string(out_, name);
  out_ += ": ";
  has_key_ = true;
  return *this;
}

void JsonWriter::text(std::string_view value) {
  begin_value();
  append_json_string(out_, value);
}

void JsonWriter::text_or_null(const char* value) {
  if (value == nullptr) {
    null();
  } else {
    text(value);
  }
}

void JsonWriter::boolean(bool value) {
  begin_value();
  out_ += value ? "true" : "false";
}

void JsonWriter::number(double value) {
  if (!std::isfinite(value)) return null();
  begin_value();
  fmt::format_to(std::back_inserter(out_), "{}", value);
}

void JsonWriter::rounded(double value, int digits) {
  if (!std::isfinite(value)) return null();
  begin_value();
  fmt::format_to(std::back_inserter(out_), "{:.{}g}", value, digits);
}

void JsonWriter::null() {
  begin_value();
  out_ += "null";
}

void JsonWriter::open(char bracket) {
  begin_value();
  out_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!is_first_) begin_line();
  out_ += bracket;
  is_first_ = false;
}

void JsonWriter::begin_value() {
  if (has_key_ || depth_ == 0) {
    has_key_ = false;
    return;
  }
  if (!is_first_) out_ += layout_ == JsonLayout::kLines ? "," : ", ";
  is_first_ = false;
  begin_line();
}

void JsonWriter::begin_line() {
  if (layout_ == JsonLayout::kOneLine) return;
  out_ += '\n';
  out_.append(2 * depth_, ' ');
}

}  // namespace keel
