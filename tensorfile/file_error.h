// SPDX-License-Identifier: Apache-2.0
// The exception of functions that read or write files.
#ifndef KEEL_TENSORFILE_FILE_ERROR_H_
#define KEEL_TENSORFILE_FILE_ERROR_H_

#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/printable.h"

namespace keel::tensorfile {

// A failure with a file; the text names the file, and the tensor if the failure concerns a tensor.
class FileError : public std::runtime_error {
 public:
  FileError(const std::filesystem::path& path, const std::string& reason)
      : std::runtime_error(printable(path.string() + ": " + reason)) {}
};

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_FILE_ERROR_H_
