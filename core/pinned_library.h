// SPDX-License-Identifier: Apache-2.0
// A library whose bytes nobody can change between the check of their digest and their execution.
#ifndef KEEL_CORE_PINNED_LIBRARY_H_
#define KEEL_CORE_PINNED_LIBRARY_H_

#include <cstddef>
#include <span>
#include <string>

#include "core/status.h"

namespace keel {

// A copy of a library file in sealed memory (memfd_create). The digest is the copy's and the copy
// is what the dynamic loader maps, so neither a rename over the file's name nor a write to the file
// changes what runs; each pinned library takes its size in memory and one descriptor for good.
//
// The loader knows the copy as /proc/self/fd/N, which dladdr returns; /proc/PID/maps says
// "/memfd:NAME (deleted)", and a debugger finds the bytes as /proc/PID/fd/N while the process
// lives. $ORIGIN in the copy's search path would be /proc/self/fd: open() loads the libraries that
// the file needs through $ORIGIN first, by their path, so that the loader finds them loaded. They
// need a DT_SONAME for it, as every library that is linked to by name has, and are outside the
// digest. A library that the copy opens later by a bare name is not searched for beside the file.
class PinnedLibrary {
 public:
  PinnedLibrary() = default;
  PinnedLibrary(const PinnedLibrary&) = delete;
  PinnedLibrary& operator=(const PinnedLibrary&) = delete;
  ~PinnedLibrary();

  // Copies the regular file |file|, which stays the caller's. |path|: what failures name.
  Status read(int file, const std::string& path);
  // Writes the SHA-256 of the copy as 64 lower-case hex digits.
  Status sha256(std::string* out_hex) const;
  // Loads the copy, for good. |origin|: the folder of the file, by a path that stays valid if
  // |out_uses_origin| is set, also after a failure.
  Status open(const std::string& origin, void** out_library, bool* out_uses_origin);

 private:
  Status seal_copy(int file);

  std::string path_;
  int copy_ = -1;
  std::span<const std::byte> bytes_;  // mapped
};

}  // namespace keel

#endif  // KEEL_CORE_PINNED_LIBRARY_H_
