// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/replacement.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace keel::tensorfile {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPartial = ".partial.";

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Who writes a file holds its lock, and a process that is killed holds none: what can be locked
// here, nobody writes any more. A process's number would not tell, which another host may have
// given to one that lives.
void remove_if_left(const fs::path& partial) {
  const int descriptor = open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(partial.c_str());
  close(descriptor);
}

// Not once it was taken for left before it was locked, or finished by another.
bool has_name(int descriptor, const fs::path& path) {
  struct stat own = {};
  struct stat named = {};
  return fstat(descriptor, &own) == 0 && stat(path.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

// What processes that were killed have left of |path|.
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

}  // namespace

Replacement::Replacement(fs::path path) : path_(std::move(path)) {
  remove_leftovers(path_);
  // Of the same folder, as renaming must not cross file systems; of the process, for two that
  // write the same path: the last one to be done wins.
  partial_ = path_;
  partial_ += std::string(kPartial) + std::to_string(getpid());
  do {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(errno);
    // Waits for another thread, or a process of the same number elsewhere, to be done with it. A
    // file system without locks has its leftovers kept.
    (void)flock(descriptor_, LOCK_EX);
  } while (!has_name(descriptor_, partial_));
  if (ftruncate(descriptor_, 0) != 0) {
    const int error = errno;
    close(descriptor_);
    fail(error);
  }
}

Replacement::~Replacement() {
  if (!done_) unlink(partial_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

void Replacement::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void Replacement::finish() {
  // Before the rename: else a crash of the machine could leave the new name and no data.
  if (fsync(descriptor_) != 0) fail(errno);
  // Still locked.
  if (rename(partial_.c_str(), path_.c_str()) != 0) fail(errno);
  done_ = true;
  close(std::exchange(descriptor_, -1));
  // The rename itself; a file system that cannot flush a folder has the old file or the new.
  const int handle = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  (void)fsync(handle);
  close(handle);
}

void Replacement::fail(int error) const {
  throw FileError(path_, "cannot be written: " + std::string(std::strerror(error)));
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
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) throw FileError(path, "cannot be written");
}

void require_writable(const fs::path& path) {
  if (is_replaceable(path)) {
    const Replacement attempt(path);
    return;
  }
  // Opened and closed, a pipe would be at its end for who reads it.
  std::error_code error;
  const bool may_write = fs::is_fifo(path, error) ? access(path.c_str(), W_OK) == 0
                                                  : std::ofstream(path, std::ios::app).is_open();
  if (!may_write) throw FileError(path, std::string("cannot be written: ") + std::strerror(errno));
}

}  // namespace keel::tensorfile
