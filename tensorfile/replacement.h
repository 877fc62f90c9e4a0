// SPDX-License-Identifier: Apache-2.0
// Files that are replaced as a whole.
#ifndef KEEL_TENSORFILE_REPLACEMENT_H_
#define KEEL_TENSORFILE_REPLACEMENT_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "tensorfile/file_error.h"

namespace keel::tensorfile {

// A file that is there as a whole under its name, or not at all: it is written beside it, as
// PATH.partial.PID, and locked meanwhile. Files of that name that nobody has locked were left by
// processes that were killed; the next one removes them. Members throw FileError.
class Replacement {
 public:
  explicit Replacement(std::filesystem::path path);
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  // Without finish(), the old file stays.
  ~Replacement();

  void write(std::span<const std::byte> bytes);
  // Flushes it to the disk and gives it its name.
  void finish();

 private:
  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool done_ = false;
};

// Replaces |path| by |text|. Throws FileError, after which the old file is still there.
void replace_file(const std::filesystem::path& path, std::string_view text);

// Whether |path| is a file, or nothing yet: a pipe, a device or a link, such as /dev/stdout, can
// only be written to.
bool is_replaceable(const std::filesystem::path& path);
// For a path that a user named: replaces it or, where it is not replaceable, writes |text| to it,
// following a link of the user's or of root's (files/output_file.h). Throws FileError.
void put_file(const std::filesystem::path& path, std::string_view text);
// Throws FileError where put_file could not begin: a path that cannot be written should not cost
// the work whose results go there. Changes nothing that is there.
void check_put_file(const std::filesystem::path& path);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_REPLACEMENT_H_
