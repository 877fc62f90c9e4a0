// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHARED_FILE_H_
#define KEEL_EMULATOR_SHARED_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "emulator/status.h"

namespace keel::emulator {

// A handle to bytes of a shared file, for processes of this host. |descriptor| belongs to
// |process|, which shares the memory, and is valid as long as the device there exists.
struct SharedFileHandle {
  int32_t process;
  int32_t descriptor;
  // Identify the file, to verify the descriptor.
  uint64_t device;
  uint64_t inode;
  uint64_t offset;
  uint64_t size;

  bool operator==(const SharedFileHandle&) const = default;
};

// A memory file mappable by all processes of the same user. The file only grows: a process still
// mapping a discarded piece sees zeroes, never another owner's bytes. Processes open the file
// without help from the owner, and the mappings outlive the owner. Thread-safe.
class SharedFile {
 public:
  // Returns NULL if the system refuses a memory file.
  static std::shared_ptr<SharedFile> create();
  // Opens the file that |place|, a handle from another process, names; the caller closes the
  // descriptor. Returns kUnavailable if the process or its file cannot be reached, kInvalidArgument
  // if |place| is not inside a shared file.
  static Status open(const SharedFileHandle& place, int* out_descriptor);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Adds |size| zero bytes. Returns false if the system does not let the file grow.
  bool extend(uint64_t size, SharedFileHandle* out_place);
  // Returns the memory of a piece from extend to the system.
  void discard(const SharedFileHandle& place);

 private:
  explicit SharedFile(int descriptor) : descriptor_(descriptor) {}

  const int descriptor_;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  std::mutex mutex_;
  uint64_t end_ = 0;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_SHARED_FILE_H_
