// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHARED_FILE_H_
#define KEEL_EMULATOR_SHARED_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "emulator/status.h"

namespace keel::emulator {

// Bytes of a shared file, for another process of this host to find. The file is that of a
// descriptor of the process that shares it, as long as the device there is.
struct SharedPlace {
  int32_t process;
  int32_t descriptor;
  // Which file it has to be.
  uint64_t device;
  uint64_t inode;
  uint64_t offset;
  uint64_t size;

  bool operator==(const SharedPlace&) const = default;
};

// A file in memory, in which other processes of this user reach what lies in it. It only grows:
// whoever still has a piece mapped that was given back sees zeroes, and nobody else's bytes.
// Nothing has to run here for others to open it, and what they have mapped outlives this process.
// Thread-safe.
class SharedFile {
 public:
  // NULL where the system has none.
  static std::shared_ptr<SharedFile> create();
  // The file of |place|, of another process: a descriptor, closed by the caller. kUnavailable where
  // the process or its file is not to be had, kInvalidArgument where the place is in no shared
  // file.
  static Status open(const SharedPlace& place, int* out_descriptor);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // |size| bytes more, zeroes. False where the system does not let it grow.
  bool extend(uint64_t size, SharedPlace* out_place);
  // Gives the memory of what extend gave out back to the system.
  void discard(const SharedPlace& place);

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
