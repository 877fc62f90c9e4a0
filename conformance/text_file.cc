// SPDX-License-Identifier: Apache-2.0
#include "conformance/text_file.h"

#include <fstream>
#include <iterator>

namespace keel::conformance {

bool read_file(const std::string& path, std::string* out_text) {
  std::ifstream file(path, std::ios::binary);
  out_text->assign(std::istreambuf_iterator<char>(file), {});
  return file.is_open() && !file.bad();
}

}  // namespace keel::conformance
