// SPDX-License-Identifier: Apache-2.0
// A file that a command writes when its work is done.
#ifndef KEEL_TOOLS_OUTPUT_FILE_H_
#define KEEL_TOOLS_OUTPUT_FILE_H_

#include <string>

namespace keel::cli {

// Constructed before the work, so that a path that cannot be written fails early. The results of
// the previous run remain until write().
class OutputFile {
 public:
  // Throws UsageError, naming |option|, the file and the reason, if the file cannot be written.
  // With an empty |path| there is no file.
  OutputFile(std::string option, std::string path);

  // Replaces the file as a whole; does nothing without a file. On failure throws
  // std::runtime_error, naming |option|, the file and the reason; the old file remains.
  void write(const std::string& text) const;

 private:
  std::string option_;
  std::string path_;
};

}  // namespace keel::cli

#endif  // KEEL_TOOLS_OUTPUT_FILE_H_
