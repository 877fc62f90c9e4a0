// SPDX-License-Identifier: Apache-2.0
// How files are opened that Keel writes. All of them are opened here, but for a plugin's cache,
// which knows include/keel alone (backends/vulkan/cache_file.cc), and what tests write.
//
// A path comes from one of two sources, which decide what it may name:
//
//   a program     An environment variable such as KEEL_TRACE, a call of keel.h, or a name that Keel
//                 makes up beside another file (PATH.partial.PID, flight-PID-N). Nobody looks at
//                 the path when the program starts, in /tmp any user may have put a file there, and
//                 the program may run as root. So a symbolic link is not followed, and a file
//                 is not written to that belongs to another user or has a second name (a hard
//                 link).
//   a user        An argument of a command line, as in `keel conform run --json PATH`. A link, a
//                 pipe or a device is the user's choice, and /dev/stdout is a link itself. A link
//                 in a folder that is open to others, which another user made, is no one's choice,
//                 and refused, as Linux does with fs.protected_symlinks=1.
//
// This holds for the last component of a path. The folders before it are the caller's choice.
// Regular files that others read are written under a second name and then renamed:
// tensorfile/replacement.h.
#ifndef KEEL_FILES_OUTPUT_FILE_H_
#define KEEL_FILES_OUTPUT_FILE_H_

#include <sys/types.h>

#include <string>

namespace keel {

// The result of opening a file: a descriptor, which the caller closes, or an errno and a reason.
// Descriptors are for writing, and closed by exec. No function waits, but for
// open_output_of_user on a pipe without a reader.
struct OpenedOutput {
  int descriptor = -1;
  // Refused here: ELOOP a link, EINVAL neither file nor device, EPERM another user's file.
  int error = 0;
  std::string reason;  // "belongs to user 12", "No such file or directory"

  bool ok() const { return descriptor >= 0; }
};

// A program's path: |path|, relative to the folder |folder| (or AT_FDCWD). Creates a file with
// |mode|, or opens what is there without changing it: a regular file, or a character device.
OpenedOutput open_output(int folder, const std::string& path, mode_t mode);
// The same, but fails with EEXIST for whatever is there. |access|: O_WRONLY or O_RDWR.
OpenedOutput create_output(int folder, const std::string& path, int access, mode_t mode);

// A user's path. Truncates a regular file if |truncates|.
OpenedOutput open_output_of_user(const std::string& path, bool truncates);

}  // namespace keel

#endif  // KEEL_FILES_OUTPUT_FILE_H_
