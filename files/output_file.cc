// SPDX-License-Identifier: Apache-2.0
#include "files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace keel {

namespace {

constexpr const char* kNoFile = "is no regular file";

OpenedOutput failed(int error) {
  char buffer[128];
  return {-1, error, strerror_r(error, buffer, sizeof(buffer))};
}

OpenedOutput refused(int error, std::string reason) {
  return {-1, error, std::move(reason)};
}

// Reason not to write to the existing |file|; empty if a program may write to it.
std::string objection(const struct stat& file) {
  if (S_ISCHR(file.st_mode)) return {};
  if (file.st_uid != geteuid()) {
    return "belongs to user " + std::to_string(file.st_uid) + "; remove it or name another";
  }
  if (file.st_nlink > 1) return "has a second name (a hard link); remove it or name another";
  return {};
}

// Opens the existing file at |path|; ENOENT if the file has vanished.
OpenedOutput open_existing(int folder, const std::string& path) {
  // O_NONBLOCK: opening a pipe without a reader must not stop a program.
  const int file =
      openat(folder, path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 && errno == ELOOP)
    return refused(ELOOP, "is a symbolic link, which is not followed");
  if (file < 0 && errno == ENXIO) return refused(EINVAL, kNoFile);
  if (file < 0) return failed(errno);
  struct stat found = {};
  if (fstat(file, &found) != 0) {
    const int error = errno;
    close(file);
    return failed(error);
  }
  const bool is_file = S_ISREG(found.st_mode) || S_ISCHR(found.st_mode);
  const std::string why = is_file ? objection(found) : kNoFile;
  if (why.empty()) return {file, 0, {}};
  close(file);
  return refused(is_file ? EPERM : EINVAL, why);
}

}  // namespace

OpenedOutput create_output(int folder, const std::string& path, int access, mode_t mode) {
  const int file =
      openat(folder, path.c_str(), access | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  return file < 0 ? failed(errno) : OpenedOutput{file, 0, {}};
}

OpenedOutput open_output(int folder, const std::string& path, mode_t mode) {
  // Creates first, so that new files work on a file system on which all files belong to one user.
  // Others may remove and create the file between the two calls, but not forever.
  constexpr int kTries = 100;
  OpenedOutput output;
  for (int i = 0; i < kTries; ++i) {
    output = create_output(folder, path, O_WRONLY, mode);
    if (output.error != EEXIST) return output;
    output = open_existing(folder, path);
    if (output.error != ENOENT) return output;
  }
  return output;
}

OpenedOutput open_output_of_user(const std::string& path, bool truncates) {
  struct stat named = {};
  if (lstat(path.c_str(), &named) == 0 && S_ISLNK(named.st_mode) && named.st_uid != 0 &&
      named.st_uid != geteuid()) {
    return refused(ELOOP, "is a symbolic link of user " + std::to_string(named.st_uid));
  }
  const int file = open(
      path.c_str(), O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | (truncates ? O_TRUNC : 0), 0666);
  return file < 0 ? failed(errno) : OpenedOutput{file, 0, {}};
}

}  // namespace keel
