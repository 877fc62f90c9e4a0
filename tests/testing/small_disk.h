// SPDX-License-Identifier: Apache-2.0
// A disk that is soon full, for tests of what is written then.
#ifndef KEEL_TESTS_TESTING_SMALL_DISK_H_
#define KEEL_TESTS_TESTING_SMALL_DISK_H_

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

namespace keel {

// Mounts a file system of |size| ("64k") on |folder|, for this process alone, which has one thread.
// False where the user cannot: containers often forbid it.
inline bool mount_small_disk(const std::string& folder, const std::string& size) {
  const auto write_file = [](const char* path, const std::string& text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool written =
        file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) close(file);
    return written;
  };
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  if (unshare(CLONE_NEWNS) != 0) {
    // In a namespace of its own every user may mount. Without a map a user is nobody there, whose
    // files cannot be made at all (EOVERFLOW), on a disk with room too.
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !write_file("/proc/self/setgroups", "deny") ||
        !write_file("/proc/self/uid_map", user + " " + user + " 1") ||
        !write_file("/proc/self/gid_map", group + " " + group + " 1")) {
      return false;
    }
  }
  const std::string options = "size=" + size + ",mode=0700,uid=" + user + ",gid=" + group;
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

}  // namespace keel

#endif  // KEEL_TESTS_TESTING_SMALL_DISK_H_
