// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/output.h"

#include <sstream>
#include <stdexcept>
#include <utility>

#include "tensorfile/replacement.h"

namespace train_gpt {

using keel::tensorfile::FileError;

Output::Output(std::string option, std::filesystem::path path)
    : option_(std::move(option)), path_(std::move(path)) {
  if (path_.empty()) return;
  try {
    keel::tensorfile::check_put_file(path_);
  } catch (const FileError& error) {
    throw std::invalid_argument(option_ + " " + error.what());
  }
}

void Output::write(const std::function<void(std::ostream&)>& content) const {
  if (path_.empty()) return;
  std::ostringstream text;
  content(text);
  try {
    keel::tensorfile::put_file(path_, text.str());
  } catch (const FileError& error) {
    throw std::runtime_error(option_ + " " + error.what());
  }
}

}  // namespace train_gpt
