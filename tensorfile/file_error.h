// SPDX-License-Identifier: Apache-2.0
// What functions of files throw.
#ifndef KEEL_TENSORFILE_FILE_ERROR_H_
#define KEEL_TENSORFILE_FILE_ERROR_H_

#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/printable.h"

namespace keel::tensorfile {

// What is wrong with a file; the text names it, and the tensor where it is one's fault.
class FileError : public std::runtime_error {
 public:
  FileError(const std::filesystem::path& path, const std::string& reason)
      : std::runtime_error(printable(path.string() + ": " + reason)) {}
};

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_FILE_ERROR_H_
