// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace keel {
namespace {

// Control characters of ASCII and of the second block (C1), which begins at 0x80 and contains CSI,
// which many terminals take for ESC [.
bool is_control(uint32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0);
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    uint32_t character = 0;
    const size_t length = decode_utf8(text, &character);
    const size_t taken = length == 0 ? 1 : length;
    if (length != 0 && !is_control(character)) {
      out.append(text, 0, taken);
    } else {
      for (const char each : text.substr(0, taken)) {
        const auto byte = static_cast<unsigned char>(each);
        out += "\\x";
        out += kDigits[byte >> 4];
        out += kDigits[byte & 15];
      }
    }
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace keel
