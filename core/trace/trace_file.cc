// SPDX-License-Identifier: Apache-2.0
#include "core/trace/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "files/output_file.h"

namespace keel {

namespace {

constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";

keel_status code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return KEEL_NOT_FOUND;
    case ELOOP:
    case EPERM:
      return KEEL_PERMISSION_DENIED;
    default:
      return KEEL_INVALID_ARGUMENT;
  }
}

}  // namespace

TraceFile::~TraceFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status TraceFile::open(const std::string& path) {
  const OpenedOutput output = open_output(AT_FDCWD, path, 0644);
  if (!output.ok()) return failure(code_of(output.error), "path {}: {}", path, output.reason);
  const int descriptor = output.descriptor;
  struct stat found = {};
  if (::fstat(descriptor, &found) != 0) found.st_mode = 0;
  // Two processes that write to one file would leave it unreadable.
  if (S_ISREG(found.st_mode) && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return failure(KEEL_ALREADY_EXISTS, "path {}: another process is writing a trace there", path);
  }
  if (S_ISREG(found.st_mode) && ::ftruncate(descriptor, 0) != 0) {
    const int error = errno;
    ::close(descriptor);
    return failure(KEEL_INVALID_ARGUMENT, "path {}: {}", path, std::strerror(error));
  }
  descriptor_ = descriptor;
  path_ = path;
  buffer_ = kHead;
  return {};
}

std::string& TraceFile::begin_event() {
  if (!empty_) buffer_ += ",\n";
  empty_ = false;
  return buffer_;
}

Status TraceFile::write_all(std::string_view text, uint64_t offset) {
  while (!text.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      return failure(KEEL_DATA_LOSS, "{}: {}", path_, std::strerror(error));
    }
    text.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Status TraceFile::flush(std::string_view metadata) {
  if (!failure_.ok()) return failure_;
  const size_t events = buffer_.size();
  const std::string tail = fmt::format("\n],\"metadata\":{{{}}}}}\n", metadata);
  buffer_ += tail;
  const Status written = write_all(buffer_, end_);
  if (written.ok()) {
    end_ += events;
    tail_ = tail;
  } else {
    failure_ = written;
    // Restores the previous end: the file's blocks are allocated, so this needs no space.
    const bool restored = write_all(tail_, end_).ok();
    const uint64_t length = restored ? end_ + tail_.size() : 0;
    if (::ftruncate(descriptor_, static_cast<off_t>(length)) != 0) errno = 0;  // no regular file
  }
  buffer_.clear();
  return failure_;
}

}  // namespace keel
