// SPDX-License-Identifier: Apache-2.0
#include "base/xml_text.h"

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace keel {

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    uint32_t character = 0;
    const size_t length = decode_utf8(text, &character);
    const size_t taken = length == 0 ? 1 : length;
    if (length == 0) {
      out += '?';
    } else if (character == '&') {
      out += "&amp;";
    } else if (character == '<') {
      out += "&lt;";
    } else if (character == '>') {
      out += "&gt;";
    } else if (character == '"') {
      out += "&quot;";
    } else if (character == '\n') {
      out += "&#10;";
    } else if (character == '\t') {
      out += "&#9;";
    } else if (character < 0x20 || character == 0xfffe || character == 0xffff) {
      out += '?';
    } else {
      out.append(text, 0, taken);
    }
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace keel
