// SPDX-License-Identifier: Apache-2.0
// Which shared memory object a rank's buffers lie in.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_ARENA_BOOK_H_
#define KEEL_COLLECTIVES_TRANSPORTS_ARENA_BOOK_H_

#include <cstdint>
#include <vector>

#include "collectives/bootstrap/share_server.h"
#include "collectives/transports/control_segment.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

// Asks the device's plugin once for each arena, then knows; publishes the arenas for the
// ranks of other processes. When the device has given memory back, it starts afresh under
// a new epoch, and those who have mapped the old arenas let go of them. For one thread.
class ArenaBook {
 public:
  explicit ArenaBook(Device& device) : device_(device) {}
  ~ArenaBook() { clear(); }
  ArenaBook(const ArenaBook&) = delete;
  ArenaBook& operator=(const ArenaBook&) = delete;

  // Fills in device, inode and offset for [pointer, pointer + size), the device's own
  // addresses of one allocation. False where it lies in no object that can be shared.
  bool locate(const void* pointer, uint64_t size, Place* out_place);
  uint32_t epoch() const { return epoch_; }

 private:
  struct Arena {
    uintptr_t begin;
    uint64_t size;
    ObjectId object;
  };

  void clear();

  Device& device_;
  std::vector<Arena> arenas_;
  uint64_t releases_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_ARENA_BOOK_H_
