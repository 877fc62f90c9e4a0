// SPDX-License-Identifier: Apache-2.0
// Opens all files that Keel writes, except a plugin's cache, whose code includes include/keel alone
// (backends/vulkan/cache_file.cc), and files of tests.
//
// A path has one of two sources, which decide which files the path may name:
//
//   a program     An environment variable such as KEEL_TRACE, a call of keel.h, or a name that Keel
//                 derives from another file (PATH.partial.PID, flight-HOST-PID-N). Nobody reviews
//                 the path when the program starts, any user may have put a file into /tmp, and
//                 the program may run as root. A symbolic link is therefore not followed, and a
//                 file that belongs to another user or has a second name (a hard link) is not
//                 written.
//   a user        An argument of a command line, as in `keel conform run --json PATH`. A link, a
//                 pipe or a device is the user's choice, and /dev/stdout is a link itself. A link
//                 of another user (but root) is nobody's choice, and refused, as Linux does in
//                 folders open to others with fs.protected_symlinks=1.
//
// The rules hold for the last component of a path. The folders before it are the caller's choice.
// Regular files that others read are written under a second name and then renamed:
// tensorfile/replacement.h.
#ifndef KEEL_FILES_OUTPUT_FILE_H_
#define KEEL_FILES_OUTPUT_FILE_H_

#include <sys/types.h>

#include <string>

namespace keel {

// The result of opening a file: a descriptor, which the caller closes, or an errno and a reason.
// Descriptors are for writing, and exec closes them. No function waits, except open_output_of_user
// on a pipe without a reader.
struct OpenedOutput {
  int descriptor = -1;
  // Set by these rules: ELOOP a link, EINVAL neither file nor device, EPERM another user's file or
  // a hard link.
  int error = 0;
  std::string reason;  // "belongs to user 12", "No such file or directory"

  bool ok() const { return descriptor >= 0; }
};

// Opens a program's |path|, relative to the folder |folder| (or AT_FDCWD). Creates a file with
// |mode|, or opens an existing regular file or character device without changing it.
OpenedOutput open_output(int folder, const std::string& path, mode_t mode);
// open_output for a new file: EEXIST if |path| exists. |access|: O_WRONLY or O_RDWR.
OpenedOutput create_output(int folder, const std::string& path, int access, mode_t mode);

// Opens a user's path. Truncates a regular file if |truncates|.
OpenedOutput open_output_of_user(const std::string& path, bool truncates);

}  // namespace keel

#endif  // KEEL_FILES_OUTPUT_FILE_H_
