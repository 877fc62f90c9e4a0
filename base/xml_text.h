// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BASE_XML_TEXT_H_
#define KEEL_BASE_XML_TEXT_H_

#include <string>
#include <string_view>

namespace keel {

// Returns |text| as content of an XML 1.0 element or attribute in double quotes, in UTF-8. Newlines
// and tabs become character references; bytes that are not UTF-8, and characters that XML forbids
// even as references, become question marks.
std::string xml_text(std::string_view text);

}  // namespace keel

#endif  // KEEL_BASE_XML_TEXT_H_
