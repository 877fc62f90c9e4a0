// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BASE_UTF8_H_
#define KEEL_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace keel {

// Returns the length in bytes of the well-formed UTF-8 character at the start of |text|, which is
// not empty, and stores the character; returns 0 if the bytes there are not well-formed.
size_t decode_utf8(std::string_view text, uint32_t* out_character);

}  // namespace keel

#endif  // KEEL_BASE_UTF8_H_
