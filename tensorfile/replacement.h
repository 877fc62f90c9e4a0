// SPDX-License-Identifier: Apache-2.0
// Replaces files as a whole.
#ifndef KEEL_TENSORFILE_REPLACEMENT_H_
#define KEEL_TENSORFILE_REPLACEMENT_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "tensorfile/file_error.h"

namespace keel::tensorfile {

// A file that appears under its name as a whole or not at all: Replacement writes the data beside
// the path, as PATH.partial.PID, locked meanwhile. Unlocked files of such a name were left by
// killed processes; the next Replacement removes them. Members throw FileError.
class Replacement {
 public:
  explicit Replacement(std::filesystem::path path);
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  // Without finish(), the old file stays.
  ~Replacement();

  void write(std::span<const std::byte> bytes);
  // Flushes the data to the disk and renames the file to |path_|.
  void finish();

 private:
  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool done_ = false;
};

// Replaces |path| by |text|. Throws FileError and then leaves the old file.
void replace_file(const std::filesystem::path& path, std::string_view text);

// Whether |path| is a regular file or does not exist: a pipe, a device or a link, such as
// /dev/stdout, can only be written to.
bool is_replaceable(const std::filesystem::path& path);
// For a path that a user named: replaces the file or, if |path| is not replaceable, writes |text|
// to it, following a link of the user or of root (files/output_file.h). Throws FileError.
void put_file(const std::filesystem::path& path, std::string_view text);
// Throws FileError where put_file could not begin, before a caller spends work on results that
// cannot be written. Changes no existing file.
void check_put_file(const std::filesystem::path& path);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_REPLACEMENT_H_
