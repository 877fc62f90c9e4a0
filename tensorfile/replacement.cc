// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/replacement.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "files/output_file.h"

namespace keel::tensorfile {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPartial = ".partial.";

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Removes |partial| unless a writer holds its lock. A writer locks its file, and the kernel drops
// the lock of a killed process. The process number in the name proves nothing: a process on another
// host may have the same number.
void remove_if_left(const fs::path& partial) {
  const int descriptor = open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(partial.c_str());
  close(descriptor);
}

// Whether |path| still names the open file: another thread or process may have removed the file as
// a leftover before it was locked, or renamed it.
bool has_name(int descriptor, const fs::path& path) {
  struct stat own = {};
  struct stat named = {};
  return fstat(descriptor, &own) == 0 && lstat(path.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

// Removes files that killed processes have left beside |path|.
void remove_leftovers(const fs::path& path) {
  const std::string begin = path.filename().string() + std::string(kPartial);
  std::error_code error;
  for (fs::directory_iterator file(folder_of(path), error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (name.size() > begin.size() && name.starts_with(begin) &&
        std::all_of(name.begin() + static_cast<ptrdiff_t>(begin.size()), name.end(),
                    [](char c) { return c >= '0' && c <= '9'; })) {
      remove_if_left(file->path());
    }
  }
}

[[noreturn]] void cannot_write(const fs::path& path, const std::string& reason) {
  throw FileError(path, "cannot be written: " + reason);
}

void write_all(int descriptor, const fs::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_write(path, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

int open_as_user(const fs::path& path, bool truncates) {
  const OpenedOutput output = open_output_of_user(path, truncates);
  if (!output.ok()) cannot_write(path, output.reason);
  return output.descriptor;
}

}  // namespace

Replacement::Replacement(fs::path path) : path_(std::move(path)) {
  remove_leftovers(path_);
  // The same folder, because rename must not cross file systems; the process number, so that of two
  // processes that write the same path the last to finish wins.
  partial_ = path_;
  partial_ += std::string(kPartial) + std::to_string(getpid());
  do {
    if (descriptor_ >= 0) close(descriptor_);
    const OpenedOutput partial = open_output(AT_FDCWD, partial_, 0666);
    descriptor_ = partial.descriptor;
    if (partial.error == ELOOP || partial.error == EPERM || partial.error == EINVAL) {
      cannot_write(path_, partial_.filename().string() + " " + partial.reason);
    }
    if (!partial.ok()) cannot_write(path_, partial.reason);
    // Waits for another thread, or for a process of the same number on another host. On a file
    // system without locks, leftovers stay.
    (void)flock(descriptor_, LOCK_EX);
  } while (!has_name(descriptor_, partial_));
  if (ftruncate(descriptor_, 0) != 0) {
    const int error = errno;
    close(descriptor_);
    cannot_write(path_, std::strerror(error));
  }
}

Replacement::~Replacement() {
  if (!done_) unlink(partial_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

void Replacement::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, path_, bytes);
}

void Replacement::finish() {
  // fsync before the rename: else a crash of the machine could leave the new name without data.
  if (fsync(descriptor_) != 0) cannot_write(path_, std::strerror(errno));
  // The file is still locked here.
  if (rename(partial_.c_str(), path_.c_str()) != 0) cannot_write(path_, std::strerror(errno));
  done_ = true;
  close(std::exchange(descriptor_, -1));
  // Flushes the rename itself; on a file system that cannot flush a folder, a crash leaves the old
  // file or the new one.
  const int handle = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  (void)fsync(handle);
  close(handle);
}

void replace_file(const fs::path& path, std::string_view text) {
  Replacement file(path);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
}

bool is_replaceable(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  return type == fs::file_type::regular || type == fs::file_type::not_found;
}

void put_file(const fs::path& path, std::string_view text) {
  if (is_replaceable(path)) {
    replace_file(path, text);
    return;
  }
  const int descriptor = open_as_user(path, /*truncates=*/true);
  try {
    write_all(descriptor, path, std::as_bytes(std::span(text)));
  } catch (...) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) cannot_write(path, std::strerror(errno));
}

void check_put_file(const fs::path& path) {
  if (is_replaceable(path)) {
    const Replacement attempt(path);
    return;
  }
  struct stat found = {};
  // A pipe is not opened: to open and close it would end the stream for its reader.
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    if (S_ISDIR(found.st_mode)) cannot_write(path, std::strerror(EISDIR));
    if (access(path.c_str(), W_OK) != 0) cannot_write(path, std::strerror(errno));
    return;
  }
  close(open_as_user(path, /*truncates=*/false));
}

}  // namespace keel::tensorfile
