// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/output.h"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tensorfile/replacement.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::Replacement;

// Else it is a pipe, a terminal or a link to somewhere, whose name is not ours to take.
bool is_replaceable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  return !fs::exists(status) || fs::is_regular_file(status);
}

}  // namespace

Output::Output(std::string option, fs::path path)
    : option_(std::move(option)), path_(std::move(path)) {
  if (path_.empty()) return;
  try {
    if (is_replaceable(path_)) {
      const Replacement attempt(path_);
    } else if (!std::ofstream(path_, std::ios::app)) {
      throw FileError(path_, "cannot be written");
    }
  } catch (const FileError& error) {
    throw std::invalid_argument(option_ + " " + error.what());
  }
}

void Output::write(const std::function<void(std::ostream&)>& content) const {
  if (path_.empty()) return;
  std::ostringstream text;
  content(text);
  try {
    if (is_replaceable(path_)) {
      keel::tensorfile::replace_file(path_, text.str());
    } else if (!(std::ofstream(path_) << text.str() << std::flush)) {
      throw FileError(path_, "cannot be written");
    }
  } catch (const FileError& error) {
    throw std::runtime_error(option_ + " " + error.what());
  }
}

}  // namespace train_gpt
