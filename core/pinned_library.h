// SPDX-License-Identifier: Apache-2.0
// A library with bytes that cannot change between the check of their digest and their execution.
#ifndef KEEL_CORE_PINNED_LIBRARY_H_
#define KEEL_CORE_PINNED_LIBRARY_H_

#include <cstddef>
#include <span>
#include <string>

#include "core/status.h"

namespace keel {

// A copy of a library file in sealed memory (memfd_create). The digest is computed over the copy
// and the dynamic loader maps the copy, so neither a rename over the file's name nor a write to the
// file changes the code that runs. Each pinned library takes its size in memory and one descriptor
// for good.
//
// The loader knows the copy as /proc/self/fd/N, which dladdr returns; /proc/PID/maps shows
// "/memfd:NAME (deleted)", and a debugger finds the bytes as /proc/PID/fd/N while the process
// lives. $ORIGIN in the copy's search path would be /proc/self/fd: open() first loads the libraries
// that the file needs through $ORIGIN by their path, and the loader then finds them loaded. These
// libraries need a DT_SONAME, as every library that is linked by name has, and are outside the
// digest. A library that the copy opens later by a bare name is not searched for beside the file.
class PinnedLibrary {
 public:
  PinnedLibrary() = default;
  PinnedLibrary(const PinnedLibrary&) = delete;
  PinnedLibrary& operator=(const PinnedLibrary&) = delete;
  ~PinnedLibrary();

  // Copies the regular file |file|; the caller keeps the descriptor. |path| names the file in
  // failures.
  Status read(int file, const std::string& path);
  // Writes the SHA-256 of the copy as 64 lower-case hex digits.
  Status sha256(std::string* out_hex) const;
  // Loads the copy, for good. |origin| is the file's folder, by a path that stays valid if
  // |*out_uses_origin| is set, also after a failure.
  Status open(const std::string& origin, void** out_library, bool* out_uses_origin);

 private:
  Status seal_copy(int file);

  std::string path_;
  int copy_ = -1;
  std::span<const std::byte> bytes_;  // mapped
};

}  // namespace keel

#endif  // KEEL_CORE_PINNED_LIBRARY_H_
