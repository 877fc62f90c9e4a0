// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BASE_PRINTABLE_H_
#define KEEL_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace keel {

// Returns |text| safe for a terminal and on one line: control characters and bytes that are not
// UTF-8 become "\x1b", byte by byte. Names in files may contain any bytes.
std::string printable(std::string_view text);

}  // namespace keel

#endif  // KEEL_BASE_PRINTABLE_H_
