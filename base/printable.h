// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BASE_PRINTABLE_H_
#define KEEL_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace keel {

// |text| without what would make a terminal do things, or break a line: control characters and
// bytes that are no UTF-8 come out as "\x1b", byte by byte. Names in files may be anything.
std::string printable(std::string_view text);

}  // namespace keel

#endif  // KEEL_BASE_PRINTABLE_H_
