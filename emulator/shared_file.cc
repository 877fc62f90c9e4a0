// SPDX-License-Identifier: Apache-2.0
#include "emulator/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace keel::emulator {
namespace {

uint64_t page_size() {
  return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t whole_pages(uint64_t size) {
  return (size + page_size() - 1) / page_size() * page_size();
}

bool is_file(const struct stat& status, const SharedFileHandle& place) {
  return S_ISREG(status.st_mode) && status.st_dev == place.device && status.st_ino == place.inode;
}

}  // namespace

std::shared_ptr<SharedFile> SharedFile::create() {
  const int descriptor = memfd_create("keel-emulated-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return nullptr;
  std::shared_ptr<SharedFile> file(new SharedFile(descriptor));
  struct stat status = {};
  // Truncation would kill processes that still map the file (SIGBUS), so a seal forbids shrinking.
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 ||
      fstat(descriptor, &status) != 0) {
    return nullptr;
  }
  file->device_ = status.st_dev;
  file->inode_ = status.st_ino;
  return file;
}

SharedFile::~SharedFile() {
  close(descriptor_);
}

bool SharedFile::extend(uint64_t size, SharedFileHandle* out_place) {
  const std::lock_guard lock(mutex_);
  // Growing the file past RLIMIT_FSIZE raises SIGXFSZ, which kills the process.
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < end_ + whole_pages(size)) {
    return false;
  }
  if (ftruncate(descriptor_, static_cast<off_t>(end_ + whole_pages(size))) != 0) return false;
  *out_place = {getpid(), descriptor_, device_, inode_, end_, size};
  end_ += whole_pages(size);
  return true;
}

void SharedFile::discard(const SharedFileHandle& place) {
  (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(place.offset), static_cast<off_t>(whole_pages(place.size)));
}

Status SharedFile::open(const SharedFileHandle& place, int* out_descriptor) {
  // Opens the other process's descriptor, which a process of the same user may do. O_PATH first,
  // until the file is verified: opening a device or a pipe can have side effects.
  const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.descriptor);
  const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  struct stat status = {};
  if (found < 0 || fstat(found, &status) != 0 || !is_file(status, place)) {
    if (found >= 0) close(found);
    return {Code::kUnavailable,
            fmt::format("process {} shares no such memory, or has ended", place.process)};
  }
  const int file = ::open(fmt::format("/proc/self/fd/{}", found).c_str(), O_RDWR | O_CLOEXEC);
  close(found);
  if (file < 0) {
    return {Code::kUnavailable,
            fmt::format("the memory of process {} cannot be opened", place.process)};
  }
  const int seals = fcntl(file, F_GET_SEALS);
  const auto length = static_cast<uint64_t>(status.st_size);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || place.size == 0 ||
      place.offset % page_size() != 0 || place.offset > length ||
      place.size > length - place.offset) {
    close(file);
    return {Code::kInvalidArgument, fmt::format("{} bytes at {} are not in shared memory of {}",
                                                place.size, place.offset, length)};
  }
  *out_descriptor = file;
  return {};
}

}  // namespace keel::emulator
