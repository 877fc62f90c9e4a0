// SPDX-License-Identifier: Apache-2.0
#include "tools/output_file.h"

#include <utility>

#include "tensorfile/replacement.h"
#include "tools/command.h"

namespace keel::cli {

OutputFile::OutputFile(std::string option, std::string path)
    : option_(std::move(option)), path_(std::move(path)) {
  if (path_.empty()) return;
  try {
    tensorfile::check_put_file(path_);
  } catch (const tensorfile::FileError& error) {
    throw UsageError(option_ + " " + error.what());
  }
}

void OutputFile::write(const std::string& text) const {
  if (path_.empty()) return;
  try {
    tensorfile::put_file(path_, text);
  } catch (const tensorfile::FileError& error) {
    throw std::runtime_error(option_ + " " + error.what());
  }
}

}  // namespace keel::cli
