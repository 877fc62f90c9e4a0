#include "tensorfile/replacement.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace keel::tensorfile {

namespace fs = std::filesystem;

Replacement::Replacement(fs::path path) : path_(std::move(path)) {
  // Of the same folder, as renaming must not cross file systems; of the process, for two that
  // write the same path: the last one to be done wins.
  partial_ = path_;
  partial_ += ".partial." + std::to_string(getpid());
  descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

Replacement::~Replacement() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!done_) unlink(partial_.c_str());
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
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) fail(errno);
  if (rename(partial_.c_str(), path_.c_str()) != 0) fail(errno);
  done_ = true;
  // The rename itself; a file system that cannot flush a folder has the old file or the new.
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

}  // namespace keel::tensorfile
