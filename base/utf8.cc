// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

namespace keel {

size_t decode_utf8(std::string_view text, uint32_t* out_character) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xc2 ? 0
                        : lead < 0xe0 ? 2
                        : lead < 0xf0 ? 3
                        : lead < 0xf5 ? 4
                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t character = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte & 0x3fu);
  }
  const bool is_overlong =
      (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  if (is_overlong || is_surrogate || character > 0x10ffff) return 0;
  *out_character = character;
  return length;
}

}  // namespace keel
