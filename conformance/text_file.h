// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_TEXT_FILE_H_
#define KEEL_CONFORMANCE_TEXT_FILE_H_

#include <string>

namespace keel::conformance {

// Reads a whole file. Returns false on failure.
bool read_file(const std::string& path, std::string* out_text);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TEXT_FILE_H_
