// SPDX-License-Identifier: Apache-2.0
// Ownership of a file descriptor (RAII).
#ifndef KEEL_BASE_IPC_FILE_DESCRIPTOR_H_
#define KEEL_BASE_IPC_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace keel {

// Owns at most one descriptor and closes it on destruction. Not thread-safe.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  // Takes ownership of |fd|; a negative |fd| means none.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    FileDescriptor taken(std::move(other));
    std::swap(fd_, taken.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  explicit operator bool() const { return fd_ >= 0; }
  // Returns -1 when empty.
  int get() const { return fd_; }
  // Passes ownership: the caller closes the descriptor.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace keel

#endif  // KEEL_BASE_IPC_FILE_DESCRIPTOR_H_
