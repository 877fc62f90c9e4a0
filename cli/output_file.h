// SPDX-License-Identifier: Apache-2.0
// A file that a command writes when its work is done.
#ifndef KEEL_CLI_OUTPUT_FILE_H_
#define KEEL_CLI_OUTPUT_FILE_H_

#include <string>

namespace keel::cli {

// Made before the work, for a path that cannot be written to show then. Until the work is done,
// the results of the run before stay.
class OutputFile {
 public:
  // UsageError, naming |option|, the file and the reason, where it cannot be written. An empty
  // |path|: there is no file.
  OutputFile(std::string option, std::string path);

  // Replaces the file as a whole, if there is one. std::runtime_error, naming the same, after
  // which the old file is there.
  void write(const std::string& text) const;

 private:
  std::string option_;
  std::string path_;
};

}  // namespace keel::cli

#endif  // KEEL_CLI_OUTPUT_FILE_H_
